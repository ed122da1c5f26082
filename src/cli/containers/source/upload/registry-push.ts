import { setTimeout as sleep } from 'node:timers/promises';
import { CommandError } from '../../../command/command.ts';
import { askServer, RefusedError } from '../../../server/server-client.ts';

/** The destination of blobs, and the authority to push them. */
export interface PushTarget {
  readonly server: string;
  readonly repository: string;
  /** Returns a bearer token, or a new one when the last was rejected. */
  token(isRefused: boolean): Promise<string>;
}

/** Pushes into one repository. Temporary failures are retried. Throws {@link CommandError}. */
export interface RegistryPush {
  /** Returns false for a blob that exists already: nothing is sent then. */
  blob(digest: string, bytes: Buffer): Promise<boolean>;
  manifest(digest: string, mediaType: string, bytes: Buffer): Promise<void>;
}

const attempts = 6;
const firstPauseMs = 500;

/** Source: OCI distribution specification 1.1, Pushing blobs, Mounting a blob, Pushing manifests. */
export function createRegistryPush({ server, repository, token }: PushTarget): RegistryPush {
  const base = `/v2/${repository}`;

  const send = async (path: string, init: RequestInit, bearer: string): Promise<Response> => {
    const headers = { ...init.headers, authorization: `Bearer ${bearer}` };
    const response = await askServer(server, path, { ...init, headers });
    if (!response.ok) throw await refusal(response);
    await response.arrayBuffer();
    return response;
  };

  return {
    blob: (digest, bytes) =>
      inAttempts(token, async bearer => {
        // A mount from the repository itself marks the existing blob as used now.
        const mount = new URLSearchParams({ mount: digest, from: repository });
        const begun = await send(`${base}/blobs/uploads/?${mount}`, { method: 'POST' }, bearer);
        if (begun.status === 201) return false;
        const { pathname } = new URL(begun.headers.get('location') ?? base, server);
        const whole = new URLSearchParams({ digest });
        const headers = { 'content-type': 'application/octet-stream' };
        const body = new Uint8Array(bytes.buffer as ArrayBuffer, bytes.byteOffset, bytes.length);
        await send(`${pathname}?${whole}`, { method: 'PUT', headers, body }, bearer);
        return true;
      }),

    manifest: (digest, mediaType, bytes) =>
      inAttempts(token, async bearer => {
        const headers = { 'content-type': mediaType };
        const body = bytes.toString();
        await send(`${base}/manifests/${digest}`, { method: 'PUT', headers, body }, bearer);
      }),
  };
}

/** Repeats the whole work after a temporary failure. */
async function inAttempts<T>(
  token: PushTarget['token'],
  work: (bearer: string) => Promise<T>,
): Promise<T> {
  let isRefused = false;
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await work(await token(isRefused));
    } catch (error) {
      const status = error instanceof RefusedError ? error.status : undefined;
      const isUnreachable = error instanceof CommandError && status === undefined;
      const mayPass = isUnreachable || (status !== undefined && isPassing(status));
      if (attempt === attempts || !mayPass) throw error;
      isRefused = status === 401;
      if (!isRefused) await sleep(firstPauseMs * 2 ** (attempt - 1));
    }
  }
}

function isPassing(status: number): boolean {
  return status >= 500 || [401, 408, 429].includes(status);
}

async function refusal(response: Response): Promise<RefusedError> {
  const body = (await response.json().catch(() => undefined)) as
    | { readonly errors?: readonly { readonly message?: string }[] }
    | undefined;
  const message = body?.errors?.[0]?.message ?? `the server answered ${response.status}`;
  return new RefusedError(`The build context cannot be uploaded: ${message}`, response.status);
}
