/**
 * The part of the API of Kubernetes that lists and deletes pods, over TLS: answers as its server does, and faults that a
 * real one cannot be made to have. `npm run cluster` runs the same code against Kubernetes itself.
 */
import { readFileSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { makeCertificates } from './certificates.ts';
import { makeTempDir } from './temp-dir.ts';

export interface StandInPod {
  readonly name: string;
  readonly uid: string;
  readonly ip: string;
}

export interface PodsApi extends AsyncDisposable {
  readonly account: { readonly origin: string; readonly directory: string };
  readonly pods: StandInPod[];
  /** Its requests: `DELETE worker-0`. */
  readonly asked: string[];
  /** Statuses for requests such as `list` or `delete`, in place of a response. `0`: none at all. */
  readonly faults: Map<string, number>;
  /** What happens to a pod that is deleted. Default: it is gone at once. */
  onDelete: (pod: StandInPod) => void;
}

const token = 'token-of-the-account';

export async function startPodsApi(): Promise<PodsApi> {
  const directory = await makeTempDir('pods-api');
  const { authority, certificate, key } = await makeCertificates(directory.join('certificates'));
  const pods: StandInPod[] = [];
  const asked: string[] = [];
  const faults = new Map<string, number>();
  const remove = (pod: StandInPod) => {
    const index = pods.indexOf(pod);
    if (index >= 0) pods.splice(index, 1);
  };
  const metadata = ({ name, uid }: StandInPod) => ({ metadata: { name, uid } });
  const tls = { cert: readFileSync(certificate), key: readFileSync(key) };
  const server = createServer(tls, async (request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '', 'https://api');
    const [, name] = /^\/api\/v1\/namespaces\/tools\/pods(?:\/(.+))?$/.exec(pathname) ?? [];
    const verb = name ? (request.method ?? '').toLowerCase() : 'list';
    asked.push(name ? `${request.method} ${name}` : `list ${searchParams.get('labelSelector')}`);
    const respond = (status: number, body: object = {}) =>
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    const fault = faults.get(verb);
    if (fault === 0) return;
    if (fault) return respond(fault, { kind: 'Status', status: 'Failure' });
    if (request.headers.authorization !== `Bearer ${token}`) return respond(401);
    if (!/PartialObjectMetadata/.test(request.headers.accept ?? '')) return respond(406);
    if (!name) {
      const [, ip] = /status\.podIP=([^,]+)/.exec(searchParams.get('fieldSelector') ?? '') ?? [];
      const found = pods.filter(pod => ip === undefined || pod.ip === ip);
      const limit = Number(searchParams.get('limit'));
      if (found.length === 0) return respond(200, { metadata: {}, items: null });
      const start = Number(searchParams.get('continue') ?? 0);
      const more = start + limit < found.length ? { continue: `${start + limit}` } : {};
      return respond(200, {
        metadata: more,
        items: found.slice(start, start + limit).map(metadata),
      });
    }
    const pod = pods.find(one => one.name === name);
    if (!pod) return respond(404);
    if (request.method === 'GET') return respond(200, metadata(pod));
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const { preconditions } = JSON.parse(Buffer.concat(chunks).toString());
    if (preconditions.uid !== pod.uid) return respond(409);
    api.onDelete(pod);
    return respond(200);
  });
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  const account = join(directory.path, 'account');
  await mkdir(account);
  await writeFile(join(account, 'token'), `${token}\n`);
  await writeFile(join(account, 'namespace'), 'tools');
  await writeFile(join(account, 'ca.crt'), await readFile(authority));
  const { port } = server.address() as AddressInfo;
  const api: PodsApi = {
    account: { origin: `https://127.0.0.1:${port}`, directory: account },
    ...{ pods, asked, faults, onDelete: remove },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise(resolve => server.close(resolve));
      await directory.remove();
    },
  };
  return api;
}
