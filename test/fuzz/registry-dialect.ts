import { createHash } from 'node:crypto';
import type { Ask, FuzzWorld } from './ask.ts';
import { jsonText, mutatedJson } from './json.ts';
import type { Random } from './random.ts';
import { mutated, oddText } from './texts.ts';

const methods = ['GET', 'HEAD', 'PUT', 'POST', 'PATCH', 'DELETE', 'OPTIONS'];
const uploads = '3f0c2a52-1c2d-4b3c-9d5e-0123456789ab';

/** Requests below `/v2`: served names, hosted repositories, uploads and tokens. */
export function registryAsk(random: Random, world: FuzzWorld): Ask {
  const isServed = random.once(3);
  const name = isServed ? world.served : repositoryOf(random, world);
  const digest = random.once(6) ? oddText(random).toWellFormed() : random.pick(world.digests);
  const tag = random.once(4) ? encodeURIComponent(oddText(random).toWellFormed()) : 'latest';
  const n = random.pick(['1', '0', '-1', '99999999999', 'x', '']);
  const chunk = random.bytes(random.int(3000));
  const digestOfChunk = `sha256:${createHash('sha256').update(chunk).digest('hex')}`;
  const manifest = manifestOf(random, world);
  const routes: readonly (readonly [method: string, path: string, body?: Buffer, type?: string])[] =
    [
      ['GET', `${name}/manifests/${tag}`],
      ['HEAD', `${name}/manifests/${digest}`],
      ['GET', `${name}/manifests/${digest}`],
      ['PUT', `${name}/manifests/${tag}`, jsonText(random, manifest), mediaTypeOf(manifest)],
      [
        'PUT',
        `${name}/manifests/${digest}?tag=${tag}&tag=b`,
        jsonText(random, manifest),
        mediaTypeOf(manifest),
      ],
      ['DELETE', `${name}/manifests/fuzz${random.int(9)}`],
      ['GET', `${name}/blobs/${digest}`],
      ['HEAD', `${name}/blobs/${digest}`],
      ['DELETE', `${name}/blobs/${digestOfChunk}`],
      [
        'GET',
        `${name}/tags/list?n=${n}&last=${encodeURIComponent(oddText(random).toWellFormed())}`,
      ],
      [
        'GET',
        `${name}/referrers/${digest}?artifactType=${encodeURIComponent(oddText(random).toWellFormed())}`,
      ],
      ['POST', `${name}/blobs/uploads/`],
      ['POST', `${name}/blobs/uploads/?digest=${random.once(3) ? digest : digestOfChunk}`, chunk],
      [
        'POST',
        `${name}/blobs/uploads/?mount=${digest}&from=${random.pick(['public/fuzz', 'x', '%00', '../a'])}`,
      ],
      ['PATCH', `${name}/blobs/uploads/${uploads}`, chunk],
      ['PUT', `${name}/blobs/uploads/${uploads}?digest=${digestOfChunk}`, chunk],
      ['GET', `${name}/blobs/uploads/${uploads}`],
      ['DELETE', `${name}/blobs/uploads/${uploads}`],
      [
        'GET',
        random.pick([
          '',
          '_catalog',
          'token',
          `token?service=x&scope=repository:${name}:pull,push`,
          '/',
          '//',
        ]),
      ],
    ];
  const [method, path, body, type] = random.pick(routes);
  return {
    method: random.once(12) ? random.pick(methods) : method,
    target: `/v2/${random.once(15) ? mutated(random, path) : path}`,
    headers: [
      ...(random.once(3) && isServed
        ? []
        : [['authorization', random.pick(world.authorizations)] as const]),
      ...(type === undefined ? [] : [['content-type', type] as const]),
      ...(random.once(4) ? [rangeOf(random)] : []),
      ...(random.once(6)
        ? [['accept', random.pick(['*/*', '', 'a/b,'.repeat(500), 'text/html'])] as const]
        : []),
      ...(random.once(10)
        ? [['if-none-match', random.pick(['*', '"x"', `"${digest}"`])] as const]
        : []),
    ],
    ...(body === undefined ? {} : { body }),
  };
}

function repositoryOf(random: Random, world: FuzzWorld): string {
  if (!random.once(4)) return world.repository;
  return random.pick([
    ...['private/a', 'public/other', 'a', 'a/'.repeat(120), '../../etc', 'ct/x/y', 'ct', 'UPPER/a'],
    ...['a%2fb', 'a//b', '%00', '.', '_catalog', 'token', mutated(random, world.served)],
  ]);
}

function rangeOf(random: Random): readonly [string, string] {
  const header = random.pick(['range', 'content-range']);
  return [
    header,
    random.pick([
      ...[
        'bytes=0-',
        'bytes=-1',
        'bytes=5-1',
        'bytes=0-0,2-3',
        'bytes=99999999999999999999-',
        '0-9',
      ],
      ...['x', 'bytes=', 'bytes=-0', '5-', '0-99999999999999999999', `bytes=${'0-1,'.repeat(500)}`],
    ]),
  ];
}

function mediaTypeOf(manifest: unknown): string {
  const { mediaType } = (manifest ?? {}) as { mediaType?: unknown };
  const isHeader = typeof mediaType === 'string' && /^[\x20-\x7e]+$/.test(mediaType);
  return isHeader ? mediaType : 'application/vnd.oci.image.manifest.v1+json';
}

function manifestOf(random: Random, { digests }: FuzzWorld): unknown {
  const of = (type: string) => ({
    mediaType: `application/vnd.oci.image.${type}`,
    digest: random.pick(digests),
    size: random.int(1000),
    annotations: { a: 'b' },
  });
  const manifest = random.pick([
    {
      ...{ schemaVersion: 2, mediaType: 'application/vnd.oci.image.manifest.v1+json' },
      ...{ config: of('config.v1+json'), layers: [of('layer.v1.tar+gzip')] },
      subject: of('manifest.v1+json'),
    },
    {
      ...{ schemaVersion: 2, mediaType: 'application/vnd.oci.image.index.v1+json' },
      manifests: [{ ...of('manifest.v1+json'), platform: { os: 'linux', architecture: 'amd64' } }],
    },
    { schemaVersion: 1, fsLayers: [], history: [] },
    { a: [of('x')] },
  ]);
  return random.once(4) ? manifest : mutatedJson(random, manifest);
}
