// Uses the JavaScript SDKs of kas-fleet-manager, unmodified, against the server
// at CLIENT_URL. TestJavaScriptSDK runs it, with the packages in NODE_PATH.
'use strict';
const assert = require('node:assert/strict');
const kafkas = require('@rhoas/kafka-management-sdk');
const accounts = require('@rhoas/service-accounts-sdk');

const { CLIENT_URL, CLIENT_AUTH_URL, CLIENT_TOKEN } = process.env;
const api = new kafkas.DefaultApi(new kafkas.Configuration({ accessToken: CLIENT_TOKEN, basePath: CLIENT_URL }));
const security = new kafkas.SecurityApi(new kafkas.Configuration({ accessToken: CLIENT_TOKEN, basePath: CLIENT_URL }));
const beside = new accounts.ServiceAccountsApi(new accounts.Configuration({ accessToken: CLIENT_TOKEN, basePath: CLIENT_AUTH_URL }));

const refused = (promise, status) => promise.then(
  () => assert.fail(`not refused with ${status}`),
  (err) => { assert.equal(err.response && err.response.status, status, err.message); return err; },
);

async function until(what, so) {
  for (const end = Date.now() + 240_000; Date.now() < end;) {
    if (await so()) return;
    await new Promise((go) => setTimeout(go, 50)); // clients poll
  }
  assert.fail(`waited in vain for ${what}`);
}

async function main() {
  const made = await api.createKafka(true, { name: 'from-js', cloud_provider: 'aws', region: 'us-east-1' });
  assert.equal(made.status, 202);
  assert.equal(made.data.status, 'accepted');
  const id = made.data.id;
  await until('ready', async () => (await api.getKafkaById(id)).data.status === 'ready');
  const { data: kafka } = await api.getKafkaById(id);
  assert.equal(kafka.name, 'from-js');
  assert.equal(kafka.kind, 'Kafka');
  assert.equal(kafka.owner, 'alice');
  assert.match(kafka.bootstrap_server_host, /:443$/);
  assert.equal(kafka.reauthentication_enabled, true);
  const { data: list } = await api.getKafkas('1', '10', 'name asc', 'name = from-js');
  assert.equal(list.total, 1);
  assert.equal(list.items[0].id, id);
  const twice = await refused(api.createKafka(true, { name: 'from-js' }), 409);
  assert.equal(kafkas.getErrorCode(twice), kafkas.APIErrorCodes.ERROR_36);
  const changed = await api.updateKafkaById(id, { reauthentication_enabled: false });
  assert.equal(changed.data.reauthentication_enabled, false);
  assert.equal((await api.deleteKafkaById(id, true)).status, 202);
  await until('gone', () => api.getKafkaById(id).then(() => false, (err) => err.response.status === 404));
  assert.ok((await api.getCloudProviders()).data.items.some((p) => p.id === 'aws' && p.enabled));

  const account = (await security.createServiceAccount({ name: 'from-js' })).data;
  assert.ok(account.client_id && account.client_secret);
  assert.ok((await security.getServiceAccounts()).data.items.some((a) => a.id === account.id));
  assert.equal((await security.deleteServiceAccountById(account.id)).status, 204);
  const other = (await beside.createServiceAccount({ name: 'from-js', description: 'beside the issuer' })).data;
  assert.ok(other.clientId && other.secret && other.createdAt > 0);
  assert.ok((await beside.getServiceAccounts(0, 10)).data.some((a) => a.id === other.id));
  assert.notEqual((await beside.resetServiceAccountSecret(other.id)).data.secret, other.secret);
  await beside.deleteServiceAccount(other.id);
  const gone = await refused(beside.getServiceAccount(other.id), 404);
  assert.equal(gone.response.data.error, 'service_account_not_found');
  console.log('all as expected');
}

main().catch((err) => {
  console.error(err.response ? `${err.message}: ${JSON.stringify(err.response.data)}` : err);
  process.exit(1);
});
