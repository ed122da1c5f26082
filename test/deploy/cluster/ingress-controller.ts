/** An ingress controller on the first node, as a site has one. */
import { copyFile, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { assertSuccess } from '../../integration/served.ts';
import { makeCertificates } from '../../world/certificates.ts';
import { type Daemon, waitUntil } from '../../world/daemon.ts';
import type { Root } from '../../world/root.ts';
import { requireCommand, requireTraefik } from '../../world/tools.ts';
import { hostsDirectory } from '../../world/trust.ts';
import type { Cluster } from './cluster.ts';
import { linkOrCopy } from './cluster-node.ts';
import { namespace } from './cluster-site.ts';
import { folder, nodeAddress, siteHost, token } from './node-files.ts';

const certificates = `${folder}/site-certificates`;
const className = 'nginx';
const tlsSecret = 'containers-tls';

/** The values of a site behind the ingress, as in docs/kubernetes.md. */
export const ingressValues = {
  url: `https://${siteHost}`,
  ingress: { enabled: true, className, tlsSecret },
};

/** Makes the certificate of the site, and its secret. */
export async function makeSiteCertificate({ root, kubectl }: Cluster): Promise<string> {
  const { authority } = await makeCertificates(join(root.directory, certificates), [siteHost]);
  const files = [`--cert=${certificates}/server.crt`, `--key=${certificates}/server.key`];
  await kubectl('-n', namespace, 'create', 'secret', 'tls', tlsSecret, ...files);
  return authority;
}

/** Makes the clients of a node reach the site through the ingress, and trust its certificate. */
export async function trustSite({ root }: Cluster, node: Root): Promise<void> {
  const place = join(node.directory, certificates);
  await mkdir(place, { recursive: true });
  if (node !== root) {
    const file = 'authority.crt';
    await copyFile(join(root.directory, certificates, file), join(place, file));
  }
  const hosts = `server = 'https://${siteHost}'\nca = '${certificates}/authority.crt'\n`;
  const write = `cat > ${hostsDirectory}/${siteHost}/hosts.toml`;
  assertSuccess(await node.exec(['sh', '-c', write], { input: hosts }));
}

/** Starts Traefik, which takes the annotations of ingress-nginx, and waits until it answers. */
export async function startIngress({ root, apply }: Cluster): Promise<Daemon> {
  await linkOrCopy(requireTraefik(), join(root.directory, folder, 'traefik'));
  await apply([
    {
      apiVersion: 'networking.k8s.io/v1',
      kind: 'IngressClass',
      metadata: { name: className },
      spec: { controller: 'k8s.io/ingress-nginx' },
    },
  ]);
  const provider = '--providers.kubernetesIngressNGINX';
  const daemon = root.spawn([
    `${folder}/traefik`,
    ...[provider, `${provider}.endpoint=https://${nodeAddress}:6443`, `${provider}.token=${token}`],
    `${provider}.certAuthFilePath=${folder}/certificates/authority.crt`,
    `--entryPoints.web.address=${nodeAddress}:80`,
    `--entryPoints.websecure.address=${nodeAddress}:443`,
    // As in docs/kubernetes.md: by default, an upload may take a minute.
    '--entryPoints.websecure.transport.respondingTimeouts.readTimeout=0',
    ...['--global.checkNewVersion=false', '--global.sendAnonymousUsage=false'],
  ]);
  const check = [requireCommand('curl'), '-sS', '-o', '/dev/null', `http://${nodeAddress}:80/`];
  await waitUntil(daemon, async () => (await root.execOnNetwork(check)).code === 0);
  return daemon;
}
