// Package gosdk uses the Go SDK of kas-fleet-manager, unmodified, against the
// server at CLIENT_URL: every operation of its services, with typed results.
//
// It is a module of its own, so that the product does not depend on the SDK.
// TestGoSDK of the folder above runs it and checks what came over the wire.
package gosdk

import (
	"context"
	"errors"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	kafkas "github.com/redhat-developer/app-services-sdk-core/app-services-sdk-go/kafkamgmt/apiv1/client"
	codes "github.com/redhat-developer/app-services-sdk-core/app-services-sdk-go/kafkamgmt/apiv1/error"
	accounts "github.com/redhat-developer/app-services-sdk-core/app-services-sdk-go/serviceaccountmgmt/apiv1/client"
	accountcodes "github.com/redhat-developer/app-services-sdk-core/app-services-sdk-go/serviceaccountmgmt/apiv1/error"
)

// bearer adds a token; the SDK leaves that to its users.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

func env(t *testing.T, name string) string {
	t.Helper()
	v := os.Getenv(name)
	if v == "" {
		t.Fatalf("%s is not set: `make e2e` runs this", name)
	}
	return v
}

func sdk(t *testing.T, token string) *kafkas.APIClient {
	t.Helper()
	cfg := kafkas.NewConfiguration()
	cfg.Servers = kafkas.ServerConfigurations{{URL: env(t, "CLIENT_URL")}}
	cfg.HTTPClient = &http.Client{Transport: bearer(env(t, token))}
	return kafkas.NewAPIClient(cfg)
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		var e kafkas.GenericOpenAPIError
		if errors.As(err, &e) {
			t.Fatalf("%v: %s", err, e.Body())
		}
		t.Fatal(err)
	}
}

// code checks the typed error of a refusal.
func code(t *testing.T, err error, want string) {
	t.Helper()
	if e := codes.GetAPIError(err); e == nil || e.GetCode() != want || e.GetReason() == "" || e.GetKind() != "Error" || e.GetOperationId() == "" {
		t.Errorf("want %s, got %v: %+v", want, err, e)
	}
}

// filled checks that no field is empty, but those that are named.
func filled(t *testing.T, v any, empty ...string) {
	t.Helper()
	s := reflect.ValueOf(v)
	for i := range s.NumField() {
		name, field := s.Type().Field(i).Name, s.Field(i)
		if is := reflect.Indirect(field); field.IsZero() || is.Kind() == reflect.String && is.Len() == 0 || is.Kind() == reflect.Slice && is.Len() == 0 {
			found := false
			for _, e := range empty {
				found = found || e == name
			}
			if !found {
				t.Errorf("%s.%s is empty", s.Type().Name(), name)
			}
		}
	}
}

func await(t *testing.T, c *kafkas.APIClient, id, what string, so func(k kafkas.KafkaRequest, status int) bool) kafkas.KafkaRequest {
	t.Helper()
	for deadline := time.Now().Add(4 * time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) { // clients poll
		k, resp, err := c.DefaultApi.GetKafkaById(t.Context(), id).Execute()
		if resp == nil {
			t.Fatal(err)
		}
		if so(k, resp.StatusCode) {
			return k
		}
	}
	t.Fatalf("waited in vain for %s", what)
	return kafkas.KafkaRequest{}
}

func ready(k kafkas.KafkaRequest, _ int) bool     { return k.GetStatus() == "ready" }
func gone(_ kafkas.KafkaRequest, status int) bool { return status == http.StatusNotFound }

func TestKafkas(t *testing.T) {
	c, ctx := sdk(t, "CLIENT_TOKEN"), t.Context()
	payload := kafkas.NewKafkaRequestPayload("first")
	payload.SetCloudProvider("aws")
	payload.SetRegion("us-east-1")
	payload.SetPlan("standard.x1")
	made, resp, err := c.DefaultApi.CreateKafka(ctx).Async(true).KafkaRequestPayload(*payload).Execute()
	ok(t, err)
	if resp.StatusCode != http.StatusAccepted || made.GetStatus() != "accepted" || made.GetName() != "first" || made.GetKind() != "Kafka" {
		t.Errorf("made %d %+v", resp.StatusCode, made)
	}
	k := await(t, c, made.GetId(), "first to be ready", ready)
	filled(t, k, "ExpiresAt", "FailedReason", "BillingCloudAccountId", "Marketplace", "PromotionStatus", "PromotionDetails", "ClusterId")
	if !k.GetMultiAz() || k.GetInstanceType() != "standard" || k.GetSizeId() != "x1" || k.GetBillingModel() != "standard" || k.GetOwner() != "alice" ||
		!strings.HasSuffix(k.GetBootstrapServerHost(), ":443") || k.GetVersion() != "3.2.3" || k.GetMaxPartitions() != 1500 || k.MaxDataRetentionSize.GetBytes() != 1000<<30 {
		t.Errorf("first is %+v", k)
	}

	// A second one, and lists by search and order.
	_, _, err = c.DefaultApi.CreateKafka(ctx).Async(true).KafkaRequestPayload(*payload).Execute()
	code(t, err, codes.ERROR_36)
	other := *payload
	other.SetName("second")
	second, _, err := c.DefaultApi.CreateKafka(ctx).Async(true).KafkaRequestPayload(other).Execute()
	ok(t, err)
	await(t, c, second.GetId(), "second to be ready", ready)
	list, _, err := c.DefaultApi.GetKafkas(ctx).OrderBy("name desc").Execute()
	ok(t, err)
	if list.GetTotal() != 2 || list.GetSize() != 2 || list.GetPage() != 1 || list.GetKind() != "KafkaRequestList" || list.Items[0].GetName() != "second" {
		t.Errorf("the list is %+v", list)
	}
	for search, want := range map[string]int32{
		"name = first": 1, "name like f% and status = ready": 1, "name in (first, second)": 2, "owner = nobody": 0, "cloud_provider = aws": 2,
	} {
		found, _, err := c.DefaultApi.GetKafkas(ctx).Search(search).Page("1").Size("10").Execute()
		ok(t, err)
		if found.GetTotal() != want {
			t.Errorf("%q finds %d", search, found.GetTotal())
		}
	}
	_, _, err = c.DefaultApi.GetKafkas(ctx).Search("colour = red").Execute()
	code(t, err, codes.ERROR_23)

	// Change.
	update := kafkas.NewKafkaUpdateRequest()
	update.SetReauthenticationEnabled(false)
	changed, _, err := c.DefaultApi.UpdateKafkaById(ctx, k.GetId()).KafkaUpdateRequest(*update).Execute()
	ok(t, err)
	if changed.GetReauthenticationEnabled() || changed.GetOwner() != "alice" {
		t.Errorf("changed %+v", changed)
	}
	update = kafkas.NewKafkaUpdateRequest()
	update.SetOwner("bob")
	if changed, _, err = c.DefaultApi.UpdateKafkaById(ctx, k.GetId()).KafkaUpdateRequest(*update).Execute(); err != nil || changed.GetOwner() != "bob" {
		t.Errorf("handed on: %v %+v", err, changed)
	}

	metrics(t, c, k.GetId())

	// The end.
	_, _, err = c.DefaultApi.DeleteKafkaById(ctx, k.GetId()).Async(false).Execute()
	code(t, err, codes.ERROR_103)
	for _, id := range []string{k.GetId(), second.GetId()} {
		_, resp, err = c.DefaultApi.DeleteKafkaById(ctx, id).Async(true).Execute()
		ok(t, err)
		if resp.StatusCode != http.StatusAccepted {
			t.Errorf("deleted: %d", resp.StatusCode)
		}
	}
	await(t, c, k.GetId(), "first to be gone", gone)
	await(t, c, second.GetId(), "second to be gone", gone)
	_, _, err = c.DefaultApi.GetKafkaById(ctx, k.GetId()).Execute()
	code(t, err, codes.ERROR_7)
}

func metrics(t *testing.T, c *kafkas.APIClient, id string) {
	t.Helper()
	const name = "kafka_broker_quota_totalstorageusedbytes"
	now, _, err := c.DefaultApi.GetMetricsByInstantQuery(t.Context(), id).Filters([]string{name}).Execute()
	ok(t, err)
	items := now.GetItems()
	if now.GetKind() == "" || now.GetId() != id || len(items) != 1 || items[0].GetValue() != 42.5 || items[0].GetTimestamp() == 0 || items[0].GetMetric()["__name__"] != name {
		t.Errorf("metrics: %+v", now)
	}
	span, _, err := c.DefaultApi.GetMetricsByRangeQuery(t.Context(), id).Duration(5).Interval(30).Filters([]string{name}).Execute()
	ok(t, err)
	ranges := span.GetItems()
	if span.GetKind() == "" || len(ranges) != 1 || len(ranges[0].GetValues()) != 2 || ranges[0].GetValues()[1].Value != 42.5 || ranges[0].GetValues()[1].GetTimestamp() == 0 {
		t.Errorf("metrics over time: %+v", span)
	}
	text, resp, err := c.DefaultApi.FederateMetrics(t.Context(), id).Execute()
	ok(t, err)
	if !strings.Contains(text, name+"{") || resp.Header.Get("Content-Type") == "" {
		t.Errorf("metrics for a scraper: %q", text)
	}
	_, _, err = c.DefaultApi.GetMetricsByInstantQuery(t.Context(), "nobody").Execute()
	if err == nil {
		t.Error("there are metrics of nobody")
	}
}

func TestPromotion(t *testing.T) {
	c, ctx := sdk(t, "CLIENT_TOKEN"), t.Context()
	payload := kafkas.NewKafkaRequestPayload("trying")
	payload.SetBillingModel("eval")
	made, _, err := c.DefaultApi.CreateKafka(ctx).Async(true).KafkaRequestPayload(*payload).Execute()
	ok(t, err)
	if made.GetBillingModel() != "eval" {
		t.Errorf("made %+v", made)
	}
	await(t, c, made.GetId(), "trying to be ready", ready)
	resp, err := c.DefaultApi.PromoteKafka(ctx, made.GetId()).Async(true).KafkaPromoteRequest(*kafkas.NewKafkaPromoteRequest("standard")).Execute()
	ok(t, err)
	if resp.StatusCode != http.StatusAccepted {
		t.Errorf("promoted: %d", resp.StatusCode)
	}
	k := await(t, c, made.GetId(), "the promotion", func(k kafkas.KafkaRequest, _ int) bool {
		return k.GetBillingModel() == "standard" && k.GetPromotionStatus() == ""
	})
	if k.GetStatus() != "ready" {
		t.Errorf("promotion made it %s", k.GetStatus())
	}
	_, err = c.DefaultApi.PromoteKafka(ctx, made.GetId()).Async(true).KafkaPromoteRequest(*kafkas.NewKafkaPromoteRequest("standard")).Execute()
	if codes.GetAPIError(err) == nil {
		t.Errorf("promoted twice: %v", err)
	}
	_, _, err = c.DefaultApi.DeleteKafkaById(ctx, made.GetId()).Async(true).Execute()
	ok(t, err)
	await(t, c, made.GetId(), "trying to be gone", gone)
}

// Without quota there is a trial, one, that expires.
func TestTrial(t *testing.T) {
	c, ctx := sdk(t, "CLIENT_TOKEN_TRIAL"), t.Context()
	made, _, err := c.DefaultApi.CreateKafka(ctx).Async(true).KafkaRequestPayload(*kafkas.NewKafkaRequestPayload("trial")).Execute()
	ok(t, err)
	k := await(t, c, made.GetId(), "the trial to be ready", ready)
	if k.GetInstanceType() != "developer" || k.GetMultiAz() || k.GetExpiresAt().Sub(k.GetCreatedAt()).Round(time.Hour) != 48*time.Hour {
		t.Errorf("the trial is %+v", k)
	}
	_, _, err = c.DefaultApi.CreateKafka(ctx).Async(true).KafkaRequestPayload(*kafkas.NewKafkaRequestPayload("another")).Execute()
	if e := codes.GetAPIError(err); e == nil || e.GetCode() != codes.ERROR_24 && e.GetCode() != codes.ERROR_5 {
		t.Errorf("a second trial: %v", err)
	}
	_, _, err = c.DefaultApi.DeleteKafkaById(ctx, made.GetId()).Async(true).Execute()
	ok(t, err)
	await(t, c, made.GetId(), "the trial to be gone", gone)
}

func TestPlaces(t *testing.T) {
	c, ctx := sdk(t, "CLIENT_TOKEN"), t.Context()
	providers, _, err := c.DefaultApi.GetCloudProviders(ctx).Page("1").Size("10").Execute()
	ok(t, err)
	for _, p := range providers.GetItems() {
		filled(t, p, "Enabled")
	}
	if providers.GetTotal() != 2 || providers.Items[0].GetId() != "aws" || !providers.Items[0].GetEnabled() {
		t.Errorf("providers: %+v", providers)
	}
	regions, _, err := c.DefaultApi.GetCloudProviderRegions(ctx, "aws").Execute()
	ok(t, err)
	free := map[string]int{}
	for _, r := range regions.GetItems() {
		if r.GetId() == "us-east-1" {
			filled(t, r)
			for _, cap := range r.Capacity {
				free[cap.GetInstanceType()] = len(cap.GetAvailableSizes())
			}
		}
	}
	if free["standard"] != 2 || free["developer"] != 1 {
		t.Errorf("room in us-east-1: %v", free)
	}
	types, _, err := c.DefaultApi.GetInstanceTypesByCloudProviderAndRegion(ctx, "aws", "us-east-1").Execute()
	ok(t, err)
	if len(types.GetInstanceTypes()) != 2 {
		t.Fatalf("instance types: %+v", types)
	}
	for _, it := range types.GetInstanceTypes() {
		filled(t, it)
		for _, b := range it.SupportedBillingModels {
			filled(t, b)
		}
		for _, s := range it.Sizes {
			filled(t, s, "LifespanSeconds")
		}
	}
	_, _, err = c.DefaultApi.GetInstanceTypesByCloudProviderAndRegion(ctx, "aws", "moon").Execute()
	code(t, err, codes.ERROR_31)
}

func TestDescriptions(t *testing.T) {
	c, ctx := sdk(t, "CLIENT_TOKEN"), t.Context()
	v, _, err := c.DefaultApi.GetVersionMetadata(ctx).Execute()
	ok(t, err)
	filled(t, v)
	for _, o := range v.GetCollections() {
		filled(t, o)
	}
	all, _, err := c.ErrorsApi.GetErrors(ctx).Execute()
	ok(t, err)
	if all.GetTotal() < 40 || len(all.Items) != int(all.GetTotal()) {
		t.Errorf("%d errors", all.GetTotal())
	}
	for _, e := range all.Items {
		filled(t, e, "OperationId")
	}
	one, _, err := c.ErrorsApi.GetErrorById(ctx, "36").Execute()
	ok(t, err)
	if one.GetCode() != codes.ERROR_36 || one.GetId() != "36" {
		t.Errorf("error 36: %+v", one)
	}
	sso, _, err := c.SecurityApi.GetSsoProviders(ctx).Execute()
	ok(t, err)
	filled(t, sso)
	if sso.GetValidIssuer() != env(t, "CLIENT_AUTH_URL") || sso.GetTokenUrl() != sso.GetValidIssuer()+"/protocol/openid-connect/token" {
		t.Errorf("sso: %+v", sso)
	}
}

func TestServiceAccounts(t *testing.T) {
	c, ctx := sdk(t, "CLIENT_TOKEN"), t.Context()
	request := kafkas.NewServiceAccountRequest("app")
	request.SetDescription("of a test")
	made, _, err := c.SecurityApi.CreateServiceAccount(ctx).ServiceAccountRequest(*request).Execute()
	ok(t, err)
	filled(t, made)
	got, _, err := c.SecurityApi.GetServiceAccountById(ctx, made.GetId()).Execute()
	ok(t, err)
	filled(t, got, "ClientSecret")
	if got.GetClientSecret() != "" || got.GetClientId() != made.GetClientId() || got.GetCreatedBy() != "alice" {
		t.Errorf("got %+v", got)
	}
	list, _, err := c.SecurityApi.GetServiceAccounts(ctx).ClientId(made.GetClientId()).Execute()
	ok(t, err)
	if len(list.GetItems()) != 1 || list.GetKind() != "ServiceAccountList" {
		t.Fatalf("the list is %+v", list)
	}
	filled(t, list.GetItems()[0])
	reset, _, err := c.SecurityApi.ResetServiceAccountCreds(ctx, made.GetId()).Execute()
	ok(t, err)
	if reset.GetClientSecret() == "" || reset.GetClientSecret() == made.GetClientSecret() {
		t.Error("the secret is the old one")
	}
	_, resp, err := c.SecurityApi.DeleteServiceAccountById(ctx, made.GetId()).Execute()
	ok(t, err)
	if resp.StatusCode != http.StatusNoContent {
		t.Errorf("deleted: %d", resp.StatusCode)
	}
	if _, resp, err := c.SecurityApi.GetServiceAccountById(ctx, made.GetId()).Execute(); err == nil || resp.StatusCode != http.StatusNotFound {
		t.Errorf("it is still there: %v", err)
	}
	besideTheIssuer(t, ctx)
}

// besideTheIssuer is where newer clients look for service accounts.
func besideTheIssuer(t *testing.T, ctx context.Context) {
	t.Helper()
	cfg := accounts.NewConfiguration()
	cfg.Servers = accounts.ServerConfigurations{{URL: env(t, "CLIENT_AUTH_URL")}}
	cfg.HTTPClient = &http.Client{Transport: bearer(env(t, "CLIENT_TOKEN"))}
	c := accounts.NewAPIClient(cfg).ServiceAccountsApi
	made, resp, err := c.CreateServiceAccount(ctx).ServiceAccountCreateRequestData(*accounts.NewServiceAccountCreateRequestData("app")).Execute()
	ok(t, err)
	filled(t, made, "Description")
	if resp.StatusCode != http.StatusCreated {
		t.Errorf("made: %d", resp.StatusCode)
	}
	change := accounts.NewServiceAccountRequestData()
	change.SetDescription("changed")
	changed, _, err := c.UpdateServiceAccount(ctx, made.GetId()).ServiceAccountRequestData(*change).Execute()
	ok(t, err)
	if changed.GetDescription() != "changed" || changed.GetName() != "app" {
		t.Errorf("changed: %+v", changed)
	}
	list, _, err := c.GetServiceAccounts(ctx).First(0).Max(10).ClientId([]string{made.GetClientId()}).Execute()
	ok(t, err)
	if len(list) != 1 || list[0].GetSecret() != "" {
		t.Errorf("the list is %d long", len(list))
	}
	got, _, err := c.GetServiceAccount(ctx, made.GetId()).Execute()
	ok(t, err)
	filled(t, got, "Secret")
	reset, _, err := c.ResetServiceAccountSecret(ctx, made.GetId()).Execute()
	ok(t, err)
	if reset.GetSecret() == "" || reset.GetSecret() == made.GetSecret() {
		t.Error("the secret is the old one")
	}
	_, err = c.DeleteServiceAccount(ctx, made.GetId()).Execute()
	ok(t, err)
	_, _, err = c.GetServiceAccount(ctx, made.GetId()).Execute()
	if !accountcodes.IsAPIError(err, "service_account_not_found") {
		t.Errorf("it is still there: %v", err)
	}
}

func TestOwnClusters(t *testing.T) {
	c, ctx := sdk(t, "CLIENT_TOKEN"), t.Context()
	const id = "abcd1234abcd1234abcd1234abcd1234"
	made, _, err := c.EnterpriseDataplaneClustersApi.RegisterEnterpriseOsdCluster(ctx).
		EnterpriseOsdClusterPayload(*kafkas.NewEnterpriseOsdClusterPayload(true, id, "apps.own.example.com", 3)).Execute()
	ok(t, err)
	filled(t, made)
	var told []string
	for _, p := range made.GetFleetshardParameters() {
		filled(t, p)
		told = append(told, p.GetId())
	}
	for _, name := range []string{"sso-auth-server-url", "sso-client-id", "sso-secret", "control-plane-url", "cluster-id", "poll-interval", "resync-interval"} {
		if !strings.Contains(" "+strings.Join(told, " ")+" ", " "+name+" ") {
			t.Errorf("the add-on is not told %s but %v", name, told)
		}
	}
	list, _, err := c.EnterpriseDataplaneClustersApi.GetEnterpriseOsdClusters(ctx).Execute()
	ok(t, err)
	if list.GetTotal() != 1 || list.Items[0].GetId() != made.GetId() {
		t.Fatalf("the list is %+v", list)
	}
	filled(t, list.Items[0])
	got, _, err := c.EnterpriseDataplaneClustersApi.GetEnterpriseClusterById(ctx, id).Execute()
	ok(t, err)
	filled(t, got, "CapacityInformation", "SupportedInstanceTypes")
	again, _, err := c.EnterpriseDataplaneClustersApi.GetEnterpriseClusterWithAddonParameters(ctx, id).Execute()
	ok(t, err)
	filled(t, again)
	_, resp, err := c.EnterpriseDataplaneClustersApi.DeleteEnterpriseClusterById(ctx, id).Async(true).Execute()
	ok(t, err)
	if resp.StatusCode != http.StatusAccepted {
		t.Errorf("deleted: %d", resp.StatusCode)
	}
}
