import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { isIP, isIPv6 } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Agent, request } from 'undici';
import { parseAddress } from '../../buildkit/index.ts';
import { Fault } from '../../foundation/fault.ts';
import { rememberSuccess, unlessAborted } from '../../foundation/work.ts';

/** The pods of workers that Sluice replaces, in its own namespace. */
export interface WorkerPods {
  /**
   * Takes the pod of a worker for its first use. Returns true once for each pod that came after this server had begun to
   * look: nobody has used it. The worker itself is not asked, because a step may have changed it. Rejects with a
   * `Fault` (503) when Kubernetes does not answer or no pod has the address.
   *
   * @param address such as `tcp://10.0.0.7:1234`
   */
  claim(address: string, signal: AbortSignal): Promise<boolean>;
  /**
   * Deletes the pod of a worker, and resolves when this pod is gone, or when there is none with this address. Rejects
   * with a `Fault` (503) when Kubernetes refuses, does not answer, or does not end the pod in time.
   */
  wipe(address: string, signal: AbortSignal): Promise<void>;
}

/** The label of such pods, with the name of the worker's own label. */
const labelSelector = 'sluice.wipe in (pod,pod-each)';
const isAlive = 'status.phase!=Failed,status.phase!=Succeeded';
/** Between SIGTERM and SIGKILL. Nothing on the worker is worth keeping. */
const graceSeconds = 1;
const goneMs = 60_000;
const pauseMs = 250;
const pageSize = 500;
const maxPages = 20;
// Pods that ended by themselves are forgotten beyond that.
const maxUsed = 2000;

/**
 * Finds the pods of workers by the account of this pod, and begins to look. Returns undefined outside Kubernetes, and for
 * a pod without the token of an account.
 *
 * @param account Default: that of this pod
 */
export function findWorkerPods(
  account: PodAccount | undefined = findPodAccount(),
): WorkerPods | undefined {
  if (!account) return undefined;
  const pods = createWorkerPods(account);
  // The sooner Sluice looks, the fewer pods are replaced that nobody has used. Where no worker is replaced, it need not succeed.
  pods.look().catch(() => {});
  return pods;
}

/** Like {@link findWorkerPods}, for a known account. `look` notes the pods that others may have used. */
export function createWorkerPods(
  account: PodAccount,
): WorkerPods & { look(): Promise<Set<string>> } {
  /** UIDs of the pods that others may have used, and of those that this server has used. */
  const { get: look } = rememberSuccess(() =>
    withPods(account, async ask => new Set(await allUids(ask, AbortSignal.timeout(goneMs)))),
  );

  /** Forgets pods that are gone. */
  const shrink = async (ask: AskPods, uids: Set<string>, signal: AbortSignal): Promise<void> => {
    const known = [...uids];
    const present = new Set(await allUids(ask, signal));
    for (const uid of known) if (!present.has(uid)) uids.delete(uid);
  };

  return {
    look,

    async claim(address, signal) {
      const ip = ipOf(address);
      const uids = await unlessAborted(look(), signal);
      return await withPods(account, async ask => {
        const pod = await podAt(ask, ip, signal);
        if (!pod) {
          throw clusterUnavailable(
            `No pod with the label sluice.wipe has the address ${ip} of a BuildKit worker: label the pods of workers like the workers themselves, in the namespace of Sluice`,
          );
        }
        const { uid } = pod.metadata;
        if (uids.has(uid)) return false;
        uids.add(uid);
        if (uids.size > maxUsed) await shrink(ask, uids, signal);
        return true;
      });
    },

    async wipe(address, signal) {
      const ip = ipOf(address);
      await withPods(account, async ask => {
        const pod = await podAt(ask, ip, signal);
        if (!pod) return;
        const { name, uid } = pod.metadata;
        const body = {
          apiVersion: 'v1',
          kind: 'DeleteOptions',
          gracePeriodSeconds: graceSeconds,
          // Not the next pod of this name.
          preconditions: { uid },
        };
        await ask({ method: 'DELETE', name, body }, signal);
        await untilGone(ask, pod, signal);
      });
    },
  };
}

/** Resolves when the pod, or another one of its name, is all that is left. */
async function untilGone(
  ask: AskPods,
  { metadata: { name, uid } }: PodMetadata,
  signal: AbortSignal,
): Promise<void> {
  const end = performance.now() + goneMs;
  while (performance.now() < end) {
    const found = (await ask({ method: 'GET', name }, signal)) as PodMetadata | undefined;
    if (found?.metadata.uid !== uid) return;
    await unlessAborted(sleep(pauseMs), signal);
  }
  throw clusterUnavailable(
    `The pod ${name} of a BuildKit worker is still there ${goneMs / 1000} s after its deletion: look at its node`,
  );
}

async function podAt(
  ask: AskPods,
  ip: string,
  signal: AbortSignal,
): Promise<PodMetadata | undefined> {
  const fieldSelector = `status.podIP=${ip},${isAlive}`;
  const query = { labelSelector, fieldSelector, limit: '2' };
  const { items } = (await ask({ method: 'GET', query }, signal)) as PodPage;
  const [pod, another] = items ?? [];
  if (another) {
    throw clusterUnavailable(
      `Several pods of BuildKit workers have the address ${ip}: run them without hostNetwork`,
    );
  }
  return pod;
}

interface PodMetadata {
  readonly metadata: { readonly name: string; readonly uid: string };
}

interface PodPage {
  readonly metadata: { readonly continue?: string };
  /** null if there is none. */
  readonly items: readonly PodMetadata[] | null;
}

async function allUids(ask: AskPods, signal: AbortSignal): Promise<string[]> {
  const uids: string[] = [];
  let next = '';
  for (let page = 0; page < maxPages; page += 1) {
    const query = { labelSelector, limit: `${pageSize}`, ...(next ? { continue: next } : {}) };
    const { items, metadata } = (await ask({ method: 'GET', query }, signal)) as PodPage;
    uids.push(...(items ?? []).map(({ metadata: { uid } }) => uid));
    next = metadata.continue ?? '';
    if (!next) return uids;
  }
  throw clusterUnavailable(`More than ${pageSize * maxPages} pods have the label sluice.wipe`);
}

function ipOf(address: string): string {
  const parsed = parseAddress(address);
  if (parsed.kind === 'tcp' && isIP(parsed.host)) return parsed.host;
  throw clusterUnavailable(
    `${address} is not the address of a pod: name the headless service of the workers, dns+tcp://NAME.NAMESPACE.svc:1234`,
  );
}

/** The account of a pod, as Kubernetes puts it there. */
interface PodAccount {
  /** Such as `https://10.96.0.1:443`. */
  readonly origin: string;
  /** Has `token`, `ca.crt` and `namespace`. Kubernetes renews these files. */
  readonly directory: string;
}

/** A request to the API server, about pods in the namespace of the account. */
interface PodsRequest {
  readonly method: 'GET' | 'DELETE';
  /** One pod. Default: all that match the query. */
  readonly name?: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly body?: object;
}

/** The data that a request is answered with; undefined for a pod that does not exist, or not with this UID. */
type AskPods = (asked: PodsRequest, signal: AbortSignal) => Promise<unknown>;

const usualAccountDirectory = '/var/run/secrets/kubernetes.io/serviceaccount';
const requestTimeoutMs = 10_000;
const maxResponseBytes = 8 * 1024 * 1024;

/** Returns the account of this pod; undefined outside Kubernetes, and for a pod without the token of an account. */
export function findPodAccount(
  env: NodeJS.ProcessEnv = process.env,
  directory = usualAccountDirectory,
): PodAccount | undefined {
  const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port = '443' } = env;
  if (!host || !existsSync(join(directory, 'token'))) return undefined;
  return { origin: `https://${isIPv6(host) ? `[${host}]` : host}:${port}`, directory };
}

/**
 * Runs work that sends requests to the API server. Requests reject with a {@link Fault} (503) that says what to do. The
 * connection and the token are those of this work: Kubernetes replaces tokens and authorities from time to time.
 */
async function withPods<T>(
  { origin, directory }: PodAccount,
  work: (ask: AskPods) => Promise<T>,
): Promise<T> {
  const read = async (name: string) => await readFile(join(directory, name), 'utf8');
  const [token, ca, namespace] = await Promise.all(['token', 'ca.crt', 'namespace'].map(read));
  const dispatcher = new Agent({
    connections: 1,
    headersTimeout: requestTimeoutMs,
    bodyTimeout: requestTimeoutMs,
    connect: { ca, timeout: requestTimeoutMs },
    maxResponseSize: maxResponseBytes,
  });
  const send: AskPods = async ({ method, name, query = {}, body }, signal) => {
    const pods = `/api/v1/namespaces/${namespace?.trim()}/pods`;
    const path = name === undefined ? pods : `${pods}/${encodeURIComponent(name)}`;
    const response = await request(`${origin}${path}?${new URLSearchParams(query)}`, {
      dispatcher,
      method,
      signal: AbortSignal.any([signal, AbortSignal.timeout(requestTimeoutMs)]),
      // A pod has much more than its metadata.
      headers: {
        authorization: `Bearer ${token?.trim()}`,
        accept: `application/json;as=PartialObjectMetadata${name === undefined ? 'List' : ''};g=meta.k8s.io;v=v1`,
        ...(body ? { 'content-type': 'application/json' } : {}),
      },
      ...(body ? { body: JSON.stringify(body) } : {}),
    });
    const { statusCode: status } = response;
    if (status === 200 || status === 202) return await response.body.json();
    await response.body.dump();
    if (name !== undefined && (status === 404 || status === 409)) return undefined;
    throw clusterRefusal(status, name === undefined ? 'list' : method.toLowerCase(), name);
  };
  try {
    return await work(async (asked, signal) => {
      try {
        return await send(asked, signal);
      } catch (error) {
        signal.throwIfAborted();
        if (error instanceof Fault) throw error;
        throw clusterUnavailable('The API server of Kubernetes does not answer', error);
      }
    });
  } finally {
    // An open request would hold a graceful end.
    await dispatcher.destroy();
  }
}

/** Returns a failure to replace a worker. */
function clusterUnavailable(message: string, cause?: unknown): Fault {
  return new Fault('unavailable', message, { phase: 'build', cause });
}

function clusterRefusal(status: number, verb: string, name = ''): Fault {
  const which = name ? ` the pod ${name}` : ' pods';
  if (status === 403) {
    return clusterUnavailable(
      `Kubernetes does not let Sluice ${verb}${which} of BuildKit workers: add the verb '${verb}' for 'pods' to the role of its account`,
    );
  }
  if (status === 401) {
    return clusterUnavailable(
      "Kubernetes does not accept the token of Sluice's account: restart the pod",
    );
  }
  return clusterUnavailable(`Kubernetes answered ${status} when Sluice tried to ${verb}${which}`);
}
