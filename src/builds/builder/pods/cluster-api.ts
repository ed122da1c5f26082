import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { isIPv6 } from 'node:net';
import { join } from 'node:path';
import { Agent, request } from 'undici';
import { Fault } from '../../../foundation/fault.ts';

/** The account of a pod, as Kubernetes puts it there. */
export interface PodAccount {
  /** Such as `https://10.96.0.1:443`. */
  readonly origin: string;
  /** Has `token`, `ca.crt` and `namespace`. Kubernetes renews these files. */
  readonly directory: string;
}

/** A request to the API server, about pods in the namespace of the account. */
export interface PodsRequest {
  readonly method: 'GET' | 'DELETE';
  /** One pod. Default: all that match the query. */
  readonly name?: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly body?: object;
}

/** The data that a request is answered with; undefined for a pod that does not exist, or not with this UID. */
export type AskPods = (asked: PodsRequest, signal: AbortSignal) => Promise<unknown>;

const usualDirectory = '/var/run/secrets/kubernetes.io/serviceaccount';
const timeoutMs = 10_000;
const maxBytes = 8 * 1024 * 1024;

/** Returns the account of this pod; undefined outside Kubernetes, and for a pod without the token of an account. */
export function findPodAccount(
  env: NodeJS.ProcessEnv = process.env,
  directory = usualDirectory,
): PodAccount | undefined {
  const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port = '443' } = env;
  if (!host || !existsSync(join(directory, 'token'))) return undefined;
  return { origin: `https://${isIPv6(host) ? `[${host}]` : host}:${port}`, directory };
}

/**
 * Runs work that sends requests to the API server. Requests reject with a {@link Fault} (503) that says what to do. The
 * connection and the token are those of this work: Kubernetes replaces tokens and authorities from time to time.
 */
export async function withPods<T>(
  { origin, directory }: PodAccount,
  work: (ask: AskPods) => Promise<T>,
): Promise<T> {
  const read = async (name: string) => await readFile(join(directory, name), 'utf8');
  const [token, ca, namespace] = await Promise.all(['token', 'ca.crt', 'namespace'].map(read));
  const dispatcher = new Agent({
    connections: 1,
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
    connect: { ca, timeout: timeoutMs },
    maxResponseSize: maxBytes,
  });
  const send: AskPods = async ({ method, name, query = {}, body }, signal) => {
    const pods = `/api/v1/namespaces/${namespace?.trim()}/pods`;
    const path = name === undefined ? pods : `${pods}/${encodeURIComponent(name)}`;
    const response = await request(`${origin}${path}?${new URLSearchParams(query)}`, {
      dispatcher,
      method,
      signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
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
    throw refusal(status, name === undefined ? 'list' : method.toLowerCase(), name);
  };
  try {
    return await work(async (asked, signal) => {
      try {
        return await send(asked, signal);
      } catch (error) {
        signal.throwIfAborted();
        if (error instanceof Fault) throw error;
        throw unavailable('The API server of Kubernetes does not answer', error);
      }
    });
  } finally {
    // An open request would hold a graceful end.
    await dispatcher.destroy();
  }
}

/** Returns a failure to replace a worker. */
export function unavailable(message: string, cause?: unknown): Fault {
  return new Fault('unavailable', message, { phase: 'build', cause });
}

function refusal(status: number, verb: string, name = ''): Fault {
  const which = name ? ` the pod ${name}` : ' pods';
  if (status === 403) {
    return unavailable(
      `Kubernetes does not let Sluice ${verb}${which} of BuildKit workers: add the verb '${verb}' for 'pods' to the role of its account`,
    );
  }
  if (status === 401) {
    return unavailable("Kubernetes does not accept the token of Sluice's account: restart the pod");
  }
  return unavailable(`Kubernetes answered ${status} when Sluice tried to ${verb}${which}`);
}
