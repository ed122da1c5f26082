/** Values of the Helm chart that tests use, and what the chart makes of them. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { parse } from 'yaml';
import type { KubernetesObject } from './helm-world.ts';

/** Returns the values of the example in a page that has a text. */
function exampleOf(page: string, text: RegExp) {
  const examples = [...readFileSync(page, 'utf8').matchAll(/^```yaml\n(.*?)^```/gms)];
  const [found, ...more] = examples.map(([, body = '']) => body).filter(body => text.test(body));
  assert.ok(found && more.length === 0, String(text));
  return parse(found) as Values;
}
interface Values {
  readonly buildkit: {
    readonly env: readonly object[];
    readonly extraVolumes: readonly { readonly name: string }[];
    readonly extraVolumeMounts: readonly { readonly name: string; readonly mountPath: string }[];
  };
}

export const one = {
  image: { repository: 'registry.example.org/sluice' },
  url: 'https://containers.example.org',
};
export const several = {
  ...one,
  replicas: 3,
  database: { existingSecret: 'sluice-database' },
  content: 's3://bucket/site',
  keys: { existingSecret: 'sluice-keys' },
  env: [
    { name: 'SLUICE_S3_REGION', value: 'eu-central-1' },
    {
      name: 'SLUICE_ACCOUNTS',
      valueFrom: { secretKeyRef: { name: 'sluice-accounts', key: 'accounts' } },
    },
  ],
};
export const whole = {
  ...several,
  config: { access: { requests: 'open' }, conda: { packages: { maxCount: 300 } } },
  ingress: { enabled: true, className: 'nginx', tlsSecret: 'containers-tls' },
  autoscaling: { enabled: true },
  networkPolicy: {
    from: [
      { namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'ingress-nginx' } } },
    ],
  },
  serviceMonitor: { enabled: true, hostsSecret: 'sluice-admin', labels: { release: 'prometheus' } },
  service: { type: 'LoadBalancer', externalTrafficPolicy: 'Local' },
  serviceAccount: { create: true, annotations: { 'eks.amazonaws.com/role-arn': 'arn' } },
  annotations: { 'reloader.stakater.com/auto': 'true' },
  podAnnotations: { 'example.org/note': 'one' },
  podLabels: { 'azure.workload.identity/use': 'true' },
  extraVolumes: [{ name: 'authority', configMap: { name: 'authority' } }],
  extraVolumeMounts: [{ name: 'authority', mountPath: '/etc/authority' }],
  data: { size: '50Gi', storageClass: 'fast' },
  nodeSelector: { 'kubernetes.io/arch': 'amd64' },
  tolerations: [{ key: 'dedicated', operator: 'Exists' }],
  imagePullSecrets: [{ name: 'registry' }],
  buildkit: {
    enabled: true,
    isolation: 'userNamespaces',
    workers: 2,
    builds: 3,
    tls: {
      ...{ server: 'buildkit-server', client: 'buildkit-client' },
      keys: { ca: 'ca.crt', certificate: 'tls.crt', key: 'tls.key' },
    },
    cache: { size: '20Gi' },
    allowedNetworks: ['10.20.0.10/32'],
    allowedPeers: [
      { namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'ingress-nginx' } } },
    ],
    podAnnotations: { 'example.org/note': 'two' },
    ...exampleOf('docs/kubernetes.md', /extraVolumes/).buildkit,
  },
};
/** Workers whose pods are replaced after each build. */
export const replacing = {
  ...one,
  buildkit: {
    enabled: true,
    workers: 3,
    tls: { server: 'buildkit-server', client: 'buildkit-client' },
    cache: { size: '20Gi' },
  },
};
export const sites = { one, several, whole, replacing };

export const ofKind = (objects: readonly KubernetesObject[], kind: string) =>
  objects.filter(object => object.kind === kind);
export const only = (objects: readonly KubernetesObject[], kind: string): KubernetesObject => {
  const [found, ...more] = ofKind(objects, kind);
  assert.ok(found && more.length === 0, kind);
  return found;
};
export const configOf = (objects: readonly KubernetesObject[]) =>
  ofKind(objects, 'ConfigMap').find(({ data }) => data?.['sluice.yaml'])?.data?.['sluice.yaml'] ??
  '';
