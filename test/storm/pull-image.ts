import { digestOf } from '../../src/oci/digest.ts';
import type { Random } from '../fuzz/random.ts';
import { Refused, type StormHttp } from './storm-http.ts';
import { Wrong } from './wrong.ts';

interface Manifest {
  readonly config: { readonly digest: string };
  readonly layers: readonly { readonly digest: string }[];
}

/**
 * Pulls an image with all its parts, and a range of each. Returns its digest.
 *
 * @param repository path below `/v2/`
 * @throws {@link Wrong} when bytes are wrong, or when the image is there and a part of it is not
 */
export async function pullImage(
  http: StormHttp,
  repository: string,
  reference: string,
  random: Random,
): Promise<string> {
  const { body, digest } = await pullManifest(http, repository, reference);
  const { config, layers } = JSON.parse(body.toString()) as Manifest;
  for (const part of [config, ...layers]) {
    const path = `/v2/${repository}/blobs/${part.digest}`;
    const blob = await http.send(path);
    if (blob.status === 404) {
      throw new Wrong(`${repository}@${digest} is there, and its part ${part.digest} is not`);
    }
    if (blob.status !== 200) throw new Refused(blob);
    requireDigest(part.digest, blob.body);
    await pullRange(http, path, blob.body, random);
  }
  return digest;
}

/** Pulls an image that must be there. Throws {@link Wrong} when it is not. */
export async function pullKept(...args: Parameters<typeof pullImage>): Promise<string> {
  try {
    return await pullImage(...args);
  } catch (error) {
    if (!(error instanceof Refused) || error.status !== 404) throw error;
    const [, repository, reference] = args;
    throw new Wrong(`${repository} ${reference} was acknowledged, and is not there`);
  }
}

/** Throws {@link Wrong} when the bytes are not those of the digest in the response. */
export async function pullManifest(
  http: StormHttp,
  repository: string,
  reference: string,
): Promise<{ readonly digest: string; readonly body: Buffer }> {
  const response = await http.expect(200, `/v2/${repository}/manifests/${reference}`);
  const { body, headers } = response;
  const digest = headers.get('docker-content-digest') ?? '';
  requireDigest(digest, body);
  if (reference.startsWith('sha256:')) requireDigest(reference, body);
  return { digest, body };
}

async function pullRange(
  http: StormHttp,
  path: string,
  whole: Buffer,
  random: Random,
): Promise<void> {
  const start = random.int(whole.length);
  const end = start + random.int(whole.length - start);
  const part = await http.expect(206, path, { headers: { range: `bytes=${start}-${end}` } });
  if (!part.body.equals(whole.subarray(start, end + 1))) {
    throw new Wrong(`wrong bytes in the range ${start}-${end} of ${path}`);
  }
}

function requireDigest(digest: string, bytes: Buffer): void {
  const found = digestOf(bytes);
  if (found !== digest) throw new Wrong(`wrong bytes: ${found} in place of ${digest}`);
}
