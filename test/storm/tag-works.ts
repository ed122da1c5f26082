/** Clients that push, delete and read the same tags, and list repositories. */
import { digestOf } from '../../src/oci/digest.ts';
import { manifestType } from '../hosted/push-client.ts';
import { pushInChunks } from './chunked-push.ts';
import { imageOf, type StormImage } from './images.ts';
import { inLanes } from './lanes.ts';
import { pullKept, pullManifest } from './pull-image.ts';
import type { Client, Storm, Work } from './storm.ts';
import { Refused } from './storm-http.ts';
import { Wrong } from './wrong.ts';

const moved = 'team/moved';
const kept = 'team/kept';
const tagsAtOnce = 2;
// The checker takes long for a key with many writes of unknown outcome.
const operationsOfTag = 120;
const mostChunks = 4;
/** How old lists may be (ms). */
export const listAgeMs = 2000;
const mostListed = 10_000;
const absent = '';

/** Pushes a new image to one of the tags, and sometimes deletes the tag. */
export const moveTag: Work = async (storm, client) => {
  const { http, history, tally } = storm;
  const { random, number } = client;
  const tag = currentTag(storm, client);
  const place = { key: `tag ${tag}`, client: number };
  const path = `/v2/${moved}/manifests/${tag}`;
  if (random.once(15)) {
    // A proxy may have repeated the request of a tag that it had deleted.
    await history.write(place, absent, () => http.expect([202, 404], path, { method: 'DELETE' }));
    tally.acknowledge('tags deleted');
    return;
  }
  const image = nextImage(storm, client);
  await pushBlobs(storm, moved, image, client);
  await history.write(place, digestOf(image.manifest), () => putManifest(storm, path, image));
  tally.acknowledge('tags pushed');
};

/** Reads one of the tags, and sometimes pulls its image. */
export const readTag: Work = async (storm, client) => {
  const { http, history, tally } = storm;
  const { random, number } = client;
  const tag = currentTag(storm, client);
  const place = { key: `tag ${tag}`, client: number };
  const found = await history.read(place, () => lookUp(storm, client, tag));
  tally.count(found === absent ? 'tags read as absent' : 'tags read');
  if (found === absent || !random.once(3)) return;
  // Its tag may have moved on. Only a deletion of its digest would remove it.
  await pullKept(http, moved, found, random);
  tally.count('images pulled');
};

/** Pushes an image that stays, or deletes it again. */
export const keepImage: Work = async (storm, client) => {
  const { http, tally } = storm;
  const { random } = client;
  const image = nextImage(storm, client);
  const digest = digestOf(image.manifest);
  const tag = `v${digest.slice(-12)}`;
  const repository = random.once(4) ? `${kept}-${digest.slice(-12)}` : kept;
  await pushBlobs(storm, repository, image, client);
  await putManifest(storm, `/v2/${repository}/manifests/${tag}`, image);
  tally.acknowledge('images pushed');
  if (!random.once(3)) {
    storm.kept.add({ kind: 'image', repository, tag, digest });
    return;
  }
  await http.expect([202, 404], `/v2/${repository}/manifests/${digest}`, { method: 'DELETE' });
  tally.acknowledge('images deleted');
  storm.kept.add({ kind: 'deleted', path: `/v2/${repository}/manifests/${tag}` });
};

/** Lists all repositories. A list may be as old as {@link listAgeMs}, and not older. */
export const readList: Work = async storm => {
  const { http, tally } = storm;
  const oldest = performance.now() - listAgeMs;
  const listed = await http.json<{ repositories: string[] }>(`/v2/_catalog?n=${mostListed}`);
  const missing = storm.kept
    .repositoriesOf(oldest)
    .filter(name => name.startsWith(kept) && !listed.repositories.includes(name));
  if (missing.length > 0) throw new Wrong(`${missing} is not listed ${listAgeMs} ms later`);
  tally.count('lists read');
};

/** Reads all tags once, when nothing fails any more. */
export async function readAllTags(storm: Storm, client: Client): Promise<void> {
  const keys = storm.history.keys.filter(name => name.startsWith('tag '));
  await inLanes(keys, key => {
    const place = { key, client: client.number };
    return storm.history.read(place, () => lookUp(storm, client, key.slice('tag '.length)));
  });
}

/** Returns one of the tags that are in use now. */
function currentTag({ history }: Storm, { random }: Client): string {
  const line = random.int(tagsAtOnce);
  for (let age = 0; ; age += 1) {
    const tag = `line-${line}-${age}`;
    if (history.countOf(`tag ${tag}`) < operationsOfTag) return tag;
  }
}

async function lookUp({ http }: Storm, { random }: Client, tag: string): Promise<string> {
  try {
    if (random.once(2)) return (await pullManifest(http, moved, tag)).digest;
    const path = `/v2/${moved}/manifests/${tag}`;
    const { headers } = await http.expect(200, path, { method: 'HEAD' });
    return headers.get('docker-content-digest') ?? '';
  } catch (error) {
    if (error instanceof Refused && error.status === 404) return absent;
    throw error;
  }
}

let images = 0;

function nextImage({ seed }: Storm, { number, random }: Client): StormImage {
  images += 1;
  return imageOf(`${seed} ${number} ${images}`, random);
}

async function pushBlobs(
  storm: Storm,
  repository: string,
  { config, layer }: StormImage,
  { random }: Client,
): Promise<void> {
  const { http } = storm;
  const path = `/v2/${repository}/blobs/${digestOf(layer)}`;
  const hasLayer =
    random.once(2) && (await http.expect([200, 404], path, { method: 'HEAD' })).status === 200;
  const chunks = 1 + random.int(mostChunks);
  if (!hasLayer) await pushInChunks(storm, repository, layer, chunks);
  await pushInChunks(storm, repository, config, 1 + random.int(2));
}

function putManifest({ http }: Storm, path: string, { manifest }: StormImage): Promise<unknown> {
  const headers = { 'content-type': manifestType };
  return http.expect(201, path, { method: 'PUT', headers, body: manifest });
}
