import { setTimeout as sleep } from 'node:timers/promises';
import { digestOf } from '../../src/oci/digest.ts';
import { Refused, type StormHttp, type StormResponse } from './storm-http.ts';
import type { Tally } from './tally.ts';

// More than a blob needs when a server dies every few seconds.
const mostBeginnings = 20;
const mostFailures = 50;
const pauseMs = 100;

/** An upload of a blob, from one point of view: what has arrived, and where the rest goes. */
interface Upload {
  location: string;
  size: number;
  readonly replicas: Set<string>;
}

/**
 * Pushes a blob in chunks, each with the range of its bytes. After a failure it asks for the state of the upload and goes
 * on there; it begins again when the upload does not exist any more.
 */
export async function pushInChunks(
  { http, tally }: { readonly http: StormHttp; readonly tally: Tally },
  repository: string,
  bytes: Buffer,
  chunks: number,
): Promise<void> {
  const chunkSize = Math.ceil(bytes.length / chunks);
  const end = `?digest=${digestOf(bytes)}`;

  const note = (upload: Upload, { headers, replica }: StormResponse) => {
    upload.location = headers.get('location') ?? upload.location;
    upload.replicas.add(replica);
    return headers;
  };
  const begin = async (): Promise<Upload> => {
    const path = `/v2/${repository}/blobs/uploads/`;
    const begun = await http.expect(202, path, { method: 'POST' });
    const upload = { location: '', size: 0, replicas: new Set<string>() };
    note(upload, begun);
    return upload;
  };
  const sendNext = async (upload: Upload): Promise<void> => {
    const { size } = upload;
    const body = bytes.subarray(size, size + chunkSize);
    const headers = { 'content-range': `${size}-${size + body.length - 1}` };
    const sent = await http.expect(202, upload.location, { method: 'PATCH', headers, body });
    upload.size = sizeIn(note(upload, sent));
  };
  const finish = async (upload: Upload): Promise<void> => {
    const { href } = new URL(end, new URL(upload.location, http.url));
    note(upload, await http.expect(201, href, { method: 'PUT' }));
  };
  /** Returns false when the upload does not exist any more. */
  const resume = async (upload: Upload): Promise<boolean> => {
    for (let tried = 1; ; tried += 1) {
      try {
        upload.size = sizeIn(note(upload, await http.expect(204, upload.location)));
        tally.count('uploads resumed');
        return true;
      } catch (error) {
        if (isUnknown(error)) return false;
        if (tried === mostFailures) throw error;
        await sleep(pauseMs);
      }
    }
  };
  const sendAll = async (upload: Upload): Promise<boolean> => {
    for (let failures = 0; ; ) {
      try {
        while (upload.size < bytes.length) await sendNext(upload);
        await finish(upload);
        return true;
      } catch (error) {
        failures += 1;
        if (failures === mostFailures) throw error;
        if (isUnknown(error) || !(await resume(upload))) return false;
      }
    }
  };
  const isThere = async (): Promise<boolean> => {
    const path = `/v2/${repository}/blobs/${digestOf(bytes)}`;
    return (await http.expect([200, 404], path, { method: 'HEAD' })).status === 200;
  };

  for (let beginnings = 1; ; beginnings += 1) {
    const upload = await begin();
    const isSent = await sendAll(upload);
    if (upload.replicas.size > 1) tally.count('uploads over several replicas');
    if (isSent) {
      tally.count('uploads');
      return;
    }
    // The response to its end may have been lost.
    if (upload.size === bytes.length && (await isThere())) return;
    tally.count('uploads begun again');
    if (beginnings === mostBeginnings) throw new Error('the upload was lost too often');
  }
}

/** Returns how many bytes an upload has. No range can express an empty one: registries send `0-0`. */
function sizeIn(headers: Headers): number {
  const last = Number(/^0-(\d+)$/.exec(headers.get('range') ?? '')?.[1] ?? 0);
  return last === 0 ? 0 : last + 1;
}

function isUnknown(error: unknown): boolean {
  return error instanceof Refused && error.status === 404;
}
