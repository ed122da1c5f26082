/** A site of the Helm chart in a cluster, with PostgreSQL and an object store beside it, as docs/kubernetes.md describes. */
import { cp, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parse, stringify } from 'yaml';
import { assertSuccess } from '../../integration/served.ts';
import { makeTempDir } from '../../world/temp-dir.ts';
import { type Cluster, startCluster } from './cluster.ts';
import { folder, nodeAddress, nodeName, siteHost } from './node-files.ts';
import { makeSiteImages, type SiteImageFiles, siteImages } from './site-images.ts';

export const namespace = 'sluice';
/** The host of the site with one server. */
export const singleHost = 'one.test';
/** What the name server leads where an operator's records would lead. */
export const siteNames = {
  [siteHost]: `sluice.${namespace}.svc.cluster.local`,
  [singleHost]: 'one-sluice.one.svc.cluster.local',
};
export interface Account {
  readonly username: string;
  readonly password: string;
}

export const account: Account = { username: 'admin', password: 'sesame' };
const bucket = 'site';
const passwords = { database: 'sesameForTheRows', store: 'sesameForTheContent' };

/** The blocks of a section of docs/kubernetes.md in a language. */
export async function blocksOf(heading: string, language: 'sh' | 'yaml'): Promise<string[]> {
  const page = await readFile('docs/kubernetes.md', 'utf8');
  const [, section = ''] = page.split(`\n## ${heading}\n`);
  const [text = ''] = section.split('\n## ');
  const pattern = new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, 'gms');
  return [...text.matchAll(pattern)].map(([, block = '']) => block);
}

/** Starts a cluster with the images of a site, and prepares it. The chart is not installed. */
export async function openClusterSite(
  prepare: (cluster: Cluster, images: SiteImageFiles) => Promise<void> = prepareSite,
  names: Readonly<Record<string, string>> = siteNames,
): Promise<Cluster> {
  const { appVersion } = parse(await readFile('deploy/helm/Chart.yaml', 'utf8'));
  await using directory = await makeTempDir('cluster-images');
  const images = await makeSiteImages(directory.path, appVersion);
  const cluster = await startCluster({ images: Object.values(images), names });
  try {
    await prepare(cluster, images);
    return cluster;
  } catch (error) {
    const said = cluster.logs();
    await cluster[Symbol.asyncDispose]();
    throw new Error(`${error}\n${said}`);
  }
}

/** Puts the chart where commands of Helm find it: the folder, and the package that a release has. */
export async function placeChart({ root, shell }: Cluster): Promise<void> {
  await cp('deploy', join(root.directory, folder, 'deploy'), { recursive: true });
  const { code, stderr } = await shell('helm package deploy/helm --destination packaged');
  if (code !== 0) throw new Error(stderr);
}

/** What the chart expects in a cluster that has nothing yet: PostgreSQL, an object store, and the secrets of a site. */
export async function prepareSite(cluster: Cluster): Promise<void> {
  const { root } = cluster;
  await placeChart(cluster);
  await mkdir(join(root.directory, 'tmp/store', bucket), { recursive: true });
  await cluster.apply([
    // The strictest profile, which the servers of the chart keep to.
    namespaceNamed(namespace, 'restricted'),
    namespaceNamed('outside', 'privileged'),
    ...outside,
  ]);
  await cluster.kubectl(
    ...['-n', 'outside', 'wait', '--for=condition=Ready', 'pod', '--all', '--timeout=240s'],
  );
  const [commands = ''] = await blocksOf('Several replicas', 'sh');
  const secrets = commands
    .replace('PASSWORD@db.example.org', `${passwords.database}@${nodeAddress}`)
    // The database of the test has no certificate.
    .replace('?sslmode=verify-full', '')
    .replace('KEY_ID', 'sluice')
    .replace('secret=SECRET', `secret=${passwords.store}`);
  assertSuccess(await cluster.shell(secrets));
  await createAccounts(cluster, namespace);
}

/** Creates the secret with accounts. Default: that of the administrator. */
export async function createAccounts(
  cluster: Cluster,
  into: string,
  accounts: readonly Account[] = [account],
): Promise<void> {
  const list = accounts.map(({ username, password }) => `${username}:${password}`);
  await cluster.kubectl(
    ...['-n', into, 'create', 'secret', 'generic', 'sluice-accounts'],
    `--from-literal=accounts=${list}`,
  );
}

const accountsVariable = {
  name: 'SLUICE_ACCOUNTS',
  valueFrom: { secretKeyRef: { name: 'sluice-accounts', key: 'accounts' } },
};

// Of a machine with two cores.
const resources = {
  requests: { cpu: '50m', memory: '256Mi' },
  limits: { memory: '1Gi' },
};

/** The values of one server with a volume. */
export function singleValues(): Readonly<Record<string, unknown>> {
  return {
    image: { repository: siteImages.sluice },
    url: `http://${singleHost}`,
    data: { size: '1Gi' },
    env: [accountsVariable],
    resources,
  };
}

/** Makes a directory of the node, and returns the volume that lies there, which the next claim gets. */
export async function localVolume(cluster: Cluster, name: string): Promise<object> {
  await mkdir(join(cluster.root.directory, 'tmp/volumes', name), { recursive: true });
  const terms = { key: 'kubernetes.io/hostname', operator: 'In', values: [nodeName] };
  return {
    apiVersion: 'v1',
    kind: 'PersistentVolume',
    metadata: { name },
    spec: {
      capacity: { storage: '1Gi' },
      accessModes: ['ReadWriteOnce'],
      local: { path: `/tmp/volumes/${name}` },
      nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions: [terms] }] } },
    },
  };
}

/** The values of docs/kubernetes.md for several replicas, completed for this cluster. */
export async function siteValues(): Promise<Readonly<Record<string, unknown>>> {
  const [text = ''] = await blocksOf('Several replicas', 'yaml');
  const { env, ...values } = parse(text);
  return {
    ...values,
    image: { repository: siteImages.sluice },
    url: `http://${siteHost}`,
    content: `s3://${bucket}/sluice`,
    env: [
      ...env,
      { name: 'SLUICE_S3_ENDPOINT', value: `http://${nodeAddress}:7070` },
      { name: 'SLUICE_S3_PATH_STYLE', value: 'true' },
      accountsVariable,
    ],
    resources,
  };
}

/** Runs a command of Helm on a release of the chart with these values, and waits until its pods are ready. */
export async function helmRelease(
  cluster: Cluster,
  command: 'install' | 'upgrade',
  release: { readonly name: string; readonly namespace: string; readonly values: object },
): Promise<void> {
  const file = `${release.name}-values.yaml`;
  await writeFile(join(cluster.root.directory, folder, file), stringify(release.values));
  const { code, stderr } = await cluster.shell(
    `helm ${command} ${release.name} packaged/*.tgz --namespace ${release.namespace} --values ${file} --wait --timeout 5m`,
  );
  if (code !== 0) throw new Error(`${stderr}\n${await describe(cluster, release.namespace)}`);
}

/** What an operator looks at when pods do not become ready. */
export async function describe(cluster: Cluster, of: string): Promise<string> {
  const { stdout } = await cluster.shell(`
    kubectl -n ${of} get all -o wide
    for pod in $(kubectl -n ${of} get pods -o name); do
      kubectl -n ${of} logs --tail=50 --prefix $pod || true
      kubectl -n ${of} logs --tail=50 --prefix --previous $pod || true
    done
    kubectl -n ${of} describe pods`);
  return stdout;
}

export const namespaceNamed = (name: string, level: string) => ({
  apiVersion: 'v1',
  kind: 'Namespace',
  metadata: { name, labels: { 'pod-security.kubernetes.io/enforce': level } },
});

/** PostgreSQL and an object store at the address of the node, as on a machine of their own. */
const outside = [
  podOutside('postgres', 5432, {
    image: siteImages.postgres,
    env: [
      { name: 'POSTGRES_USER', value: 'sluice' },
      { name: 'POSTGRES_DB', value: 'sluice' },
      { name: 'POSTGRES_PASSWORD', value: passwords.database },
    ],
  }),
  podOutside(
    'store',
    7070,
    {
      image: siteImages.store,
      args: [
        '--port',
        ':7070',
        '--keep-alive',
        '--quiet',
        '--region',
        'eu-central-1',
        'posix',
        '/store',
      ],
      env: [
        { name: 'ROOT_ACCESS_KEY', value: 'sluice' },
        { name: 'ROOT_SECRET_KEY', value: passwords.store },
      ],
      volumeMounts: [{ name: 'store', mountPath: '/store' }],
    },
    [{ name: 'store', hostPath: { path: '/tmp/store' } }],
  ),
];

function podOutside(name: string, port: number, container: object, volumes: object[] = []): object {
  const readinessProbe = { tcpSocket: { port, host: nodeAddress }, periodSeconds: 1 };
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace: 'outside' },
    spec: {
      nodeName,
      hostNetwork: true,
      automountServiceAccountToken: false,
      containers: [{ name, imagePullPolicy: 'Never', readinessProbe, ...container }],
      volumes,
    },
  };
}
