package cluster

// agentText is the agent on its cluster, but for the namespace. The chart in
// deploy/helm/drover-agent says the same; a test compares the two.
const agentText = `apiVersion: v1
kind: ServiceAccount
metadata:
  name: drover-agent
  namespace: {{.Namespace}}
  labels:
    app.kubernetes.io/name: drover-agent
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{.Wide}}
  labels:
    app.kubernetes.io/name: drover-agent
rules:{{template "rules" .Rules}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{.Wide}}
  labels:
    app.kubernetes.io/name: drover-agent
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{.Wide}}
subjects:
  - kind: ServiceAccount
    name: drover-agent
    namespace: {{.Namespace}}
---
# What it keeps over restarts, and which of its replicas is the active one.
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: drover-agent
  namespace: {{.Namespace}}
  labels:
    app.kubernetes.io/name: drover-agent
rules:
  - verbs: ["get", "list", "watch", "create", "update", "patch", "delete"]
    apiGroups: [""]
    resources: ["secrets"]
  - verbs: ["get", "list", "watch", "create", "update", "patch", "delete"]
    apiGroups: ["coordination.k8s.io"]
    resources: ["leases"]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: drover-agent
  namespace: {{.Namespace}}
  labels:
    app.kubernetes.io/name: drover-agent
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: drover-agent
subjects:
  - kind: ServiceAccount
    name: drover-agent
    namespace: {{.Namespace}}
---
apiVersion: v1
kind: Secret
metadata:
  name: drover-join
  namespace: {{.Namespace}}
  labels:
    app.kubernetes.io/name: drover-agent
type: Opaque
stringData:
  token: {{json .Token}}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: drover-agent
  namespace: {{.Namespace}}
  labels:
    app.kubernetes.io/name: drover-agent
spec:
  replicas: 2
  selector:
    matchLabels:
      app.kubernetes.io/name: drover-agent
  template:
    metadata:
      labels:
        app.kubernetes.io/name: drover-agent
    spec:
      serviceAccountName: drover-agent
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
        fsGroup: 65532
        seccompProfile:
          type: RuntimeDefault
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels:
              app.kubernetes.io/name: drover-agent
      containers:
        - name: agent
          image: {{json .Image}}
          args:
            - agent
            - --runtime={{.Runtime}}
            - --runtime-options=lease=drover-agent,namespace={{.Namespace}}
            - {{json (print "--server=" .Server)}}
            - {{json (print "--cluster=" .Cluster)}}
            - --token-file=/var/run/drover/token
            - --data-dir=/var/lib/drover
            - --log-format=json
{{- if .TLSSecret}}
            - --ca-file=/var/run/drover-tls/ca.crt
            - --client-certificate-file=/var/run/drover-tls/tls.crt
            - --client-key-file=/var/run/drover-tls/tls.key
{{- end}}
{{- if .Plaintext}}
            - --plaintext=server
{{- end}}
{{- if .Health}}
            - --health=:{{.Health}}
{{- end}}
{{- if .Trace}}
            - {{json (print "--trace-endpoint=" .Trace)}}
{{- end}}
          env:
            - name: POD_NAME
              valueFrom:
                fieldRef:
                  fieldPath: metadata.name
            - name: POD_NAMESPACE
              valueFrom:
                fieldRef:
                  fieldPath: metadata.namespace
{{- if .Health}}
          ports:
            - name: health
              containerPort: {{.Health}}
          livenessProbe:
            httpGet:
              path: /healthz
              port: health
            periodSeconds: 20
            failureThreshold: 6
          readinessProbe:
            httpGet:
              path: /readyz
              port: health
            periodSeconds: 10
{{- end}}
          resources:
            requests:
              cpu: 50m
              memory: 96Mi
            limits:
              memory: 512Mi
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities:
              drop: ["ALL"]
          volumeMounts:
            - name: token
              mountPath: /var/run/drover
              readOnly: true
{{- if .TLSSecret}}
            - name: tls
              mountPath: /var/run/drover-tls
              readOnly: true
{{- end}}
            - name: data
              mountPath: /var/lib/drover
            - name: tmp
              mountPath: /tmp
      volumes:
        - name: token
          secret:
            secretName: drover-join
{{- if .TLSSecret}}
        - name: tls
          secret:
            secretName: {{json .TLSSecret}}
{{- end}}
        - name: data
          emptyDir: {}
        - name: tmp
          emptyDir: {}
`
