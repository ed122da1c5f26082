/** The Helm chart: rendered by Helm, and read back. */
import { readFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { parseAllDocuments, stringify } from 'yaml';
import { type Result, runProgram } from '../world/program.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import { requireHelm } from '../world/tools.ts';

export const chart = 'deploy/helm';

/** A document of Kubernetes, as far as the tests read it. */
export interface KubernetesObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly labels?: Labels };
  readonly data?: Readonly<Record<string, string>>;
  /** Of a `Role`. */
  readonly rules?: readonly Readonly<Record<string, readonly string[]>>[];
  /** Of a `RoleBinding`. */
  readonly subjects?: readonly Labels[];
  readonly spec: {
    readonly replicas?: number;
    readonly selector: Labels & { readonly matchLabels?: Labels };
    readonly podSelector?: { readonly matchLabels: Labels };
    readonly ingress?: readonly { readonly from?: readonly object[] }[];
    /** Of a `ServiceMonitor`: the label of a service that names the job. */
    readonly jobLabel?: string;
    readonly strategy?: { readonly type: string };
    readonly template: { readonly metadata: { readonly labels: Labels }; readonly spec: PodSpec };
    readonly volumeClaimTemplates?: readonly {
      readonly apiVersion: string;
      readonly kind: string;
    }[];
  };
}
export type Labels = Readonly<Record<string, string>>;

interface PodSpec {
  readonly terminationGracePeriodSeconds: number;
  readonly automountServiceAccountToken: boolean;
  readonly serviceAccountName?: string;
  readonly enableServiceLinks: boolean;
  readonly hostUsers?: boolean;
  readonly tolerations?: readonly object[];
  readonly topologySpreadConstraints?: readonly { readonly matchLabelKeys?: readonly string[] }[];
  readonly securityContext: Readonly<Record<string, unknown>>;
  readonly volumes: readonly Readonly<Record<string, unknown>>[];
  readonly initContainers?: readonly (PodContainer & { readonly command: readonly string[] })[];
  readonly containers: readonly (PodContainer & {
    readonly args?: readonly string[];
    readonly command?: readonly string[];
    readonly resources: { readonly limits?: Labels };
    readonly env: readonly { readonly name: string; readonly value?: string }[];
    readonly ports: readonly { readonly name: string; readonly containerPort: number }[];
    readonly readinessProbe: { readonly httpGet?: { readonly path: string } };
    readonly livenessProbe: { readonly httpGet?: { readonly path: string } };
  })[];
}

interface PodContainer {
  readonly image: string;
  readonly securityContext: Readonly<Record<string, unknown>>;
  readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string }[];
}

/** Runs Helm with a file of values. */
export async function helm(command: readonly string[], values: object): Promise<Result> {
  await using directory = await makeTempDir('helm');
  const file = directory.join('values.yaml');
  await writeFile(file, stringify(values));
  return await runProgram([requireHelm().helm, ...command, chart, '--values', file], {
    env: { PATH: process.env.PATH, HOME: directory.path },
  });
}

/** Returns the documents that the chart makes of values, for a release in the namespace `tools`. */
export async function rendered(
  values: object,
  release = 'team',
  version = '1.37.0',
): Promise<KubernetesObject[]> {
  const { code, stdout, stderr } = await helm(
    ['template', release, '--namespace', 'tools', '--kube-version', version],
    values,
  );
  if (code !== 0) throw new Error(stderr);
  return parseAllDocuments(stdout).map(document => document.toJS() as KubernetesObject);
}

interface SchemaNode {
  [name: string]: unknown;
  properties?: Record<string, unknown>;
  'x-kubernetes-group-version-kind'?: readonly { group: string; version: string; kind: string }[];
}

/**
 * Returns what kubeconform says of documents: a field that Kubernetes does not know is an error.
 *
 * @param skipped kinds that Kubernetes itself does not have
 */
export async function conformance(
  objects: readonly KubernetesObject[],
  skipped: readonly string[] = [],
): Promise<Result> {
  await using directory = await makeTempDir('kubeconform');
  const { kubeconform, schema } = requireHelm();
  const { definitions } = JSON.parse(readFileSync(schema, 'utf8')) as {
    definitions: Record<string, SchemaNode>;
  };
  for (const [name, node] of Object.entries(definitions)) {
    // These are written as numbers too.
    if (/\.(?:IntOrString|Quantity)$/.test(name)) node.type = ['string', 'integer', 'number'];
    if (node.properties && node.additionalProperties === undefined)
      node.additionalProperties = false;
  }
  const folder = directory.join('schemas');
  await mkdir(folder);
  for (const node of Object.values(definitions)) {
    for (const { group, version, kind } of node['x-kubernetes-group-version-kind'] ?? []) {
      const isUsed = objects.some(
        object =>
          object.kind === kind && object.apiVersion === (group ? `${group}/` : '') + version,
      );
      if (!isUsed) continue;
      const name = [kind, ...(group ? [group.split('.')[0]] : []), version].join('-').toLowerCase();
      await writeFile(`${folder}/${name}.json`, JSON.stringify({ ...node, definitions }));
    }
  }
  // Kubernetes reads YAML 1.1, in which a bare `off` is not a string.
  const input = objects.map(object => stringify(object, { version: '1.1' })).join('---\n');
  return await runProgram(
    [
      ...[kubeconform, '-strict', '-verbose', '-summary'],
      ...['-schema-location', `${folder}/{{.ResourceKind}}{{.KindSuffix}}.json`],
      ...(skipped.length > 0 ? ['-skip', skipped.join(',')] : []),
    ],
    { env: { PATH: process.env.PATH, HOME: directory.path }, input },
  );
}
