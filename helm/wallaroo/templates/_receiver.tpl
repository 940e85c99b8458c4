{{/* A receiver for trying things out, added if no outputs are set. */}}
{{- define "wallaroo.receiver" -}}
{{- if include "wallaroo.hasReceiver" . }}
{{- $part := dict "root" . "component" "receiver" -}}
{{- $metadata := include "wallaroo.metadata" (merge (dict "name" "receiver") $part) -}}
{{- $program := .Subcharts.wallaroo.Files.Get "files/receiver.py" }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  {{- $metadata | nindent 2 }}
data:
  receiver.py: |
    {{- $program | nindent 4 }}
---
apiVersion: v1
kind: Service
metadata:
  {{- $metadata | nindent 2 }}
spec:
  type: ClusterIP
  selector:
    {{- include "wallaroo.selectorLabels" $part | nindent 4 }}
  ports:
    {{- range .Values.receiver.ports }}
    - name: output-{{ int . }}
      port: {{ int . }}
      targetPort: {{ int . }}
      protocol: TCP
    {{- end }}
    - name: http
      port: 7981
      targetPort: 7981
      protocol: TCP
---
apiVersion: apps/v1
kind: Deployment
metadata:
  {{- $metadata | nindent 2 }}
spec:
  replicas: 1
  selector:
    matchLabels:
      {{- include "wallaroo.selectorLabels" $part | nindent 6 }}
  template:
    metadata:
      {{- include "wallaroo.podMetadata" (merge (dict "annotations" (dict "checksum/program" (sha256sum $program))) $part) | nindent 6 }}
    spec:
      automountServiceAccountToken: false
      terminationGracePeriodSeconds: 10
      {{- include "wallaroo.anyPod" (dict "root" . "component" "receiver" "tolerations" .Values.receiver.tolerations) | nindent 6 }}
      containers:
        - name: receiver
          image: {{ include "wallaroo.image" . }}
          imagePullPolicy: {{ .Values.image.pullPolicy }}
          command: [python3, /etc/wallaroo/receiver/receiver.py]
          args:
            - {{ dict "ports" .Values.receiver.ports "http" 7981 "format" .Values.receiver.format | toJson | quote }}
          ports:
            {{- range .Values.receiver.ports }}
            - name: output-{{ int . }}
              containerPort: {{ int . }}
              protocol: TCP
            {{- end }}
            - name: http
              containerPort: 7981
              protocol: TCP
          readinessProbe:
            httpGet: {path: /healthz, port: http}
            periodSeconds: 2
          livenessProbe:
            httpGet: {path: /healthz, port: http}
            timeoutSeconds: 5
          resources:
            {{- toYaml .Values.receiver.resources | nindent 12 }}
          securityContext:
            {{- toYaml .Values.securityContext | nindent 12 }}
          volumeMounts:
            - name: program
              mountPath: /etc/wallaroo/receiver
              readOnly: true
      volumes:
        - name: program
          configMap:
            name: {{ include "wallaroo.fullname" . }}-receiver
{{- end }}
{{- end }}
