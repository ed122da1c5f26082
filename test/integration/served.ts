/** What the tests with real clients ask Sluice for, and what must come out of it. */
import assert from 'node:assert/strict';
import { fullLines } from '../corpus/cfg.ts';
import { bytesOf } from '../corpus/content.ts';
import { makeImage, type Pushed } from '../corpus/corpus.ts';
import { layerOf } from '../corpus/layer.ts';
import type { Result } from '../world/program.ts';
import type { ContainerResponse, Sluice } from '../world/sluice.ts';

const script = `#!/bin/sh
echo "arguments: $*"
echo "directory: $(pwd)"
echo "greeting: $GREETING"
echo "chain: $SLUICE_ENTRY_CHAIN"
cat note
`;

const layer = await layerOf([
  { name: 'bin/injected', content: script, mode: 0o755 },
  { name: 'injected/' },
  { name: 'injected/note', content: 'a file that was injected\n' },
]);

/** The layer that {@link change} injects, as manifests and configs must name it. */
export const injected = {
  gzipDigest: layer.content.digest,
  gzipSize: layer.content.size,
  tarDigest: layer.diffId,
  bytes: bytesOf(layer.content),
};

/** A `containerConfig` with something of everything. */
export const change = {
  env: ['GREETING=injected', 'ADDED=a=b'],
  entrypoint: ['/bin/injected'],
  workingDir: '/injected',
  layers: [
    {
      location: `data:${injected.bytes.toString('base64')}`,
      gzipDigest: injected.gzipDigest,
      gzipSize: injected.gzipSize,
      tarDigest: injected.tarDigest,
    },
  ],
};

/** An image that a container request with {@link change} is made for. */
export interface Case {
  readonly image: 'cfg:full' | 'cfg:full-docker' | 'multi:index' | 'multi:list';
  readonly by: 'tag' | 'digest';
  readonly platform?: string;
}

export const caseImages = ['cfg:full', 'cfg:full-docker', 'multi:index', 'multi:list'] as const;

/**
 * Both families, one platform and two, with the platform chosen and without. By tag and by digest in turn, because each
 * case costs every client a pull and a container: corpus.test.ts requests all images both ways.
 */
export const cases: readonly Case[] = [
  { image: 'cfg:full', by: 'tag' },
  { image: 'cfg:full-docker', by: 'digest' },
  { image: 'multi:index', by: 'tag' },
  { image: 'multi:index', by: 'digest', platform: 'linux/amd64' },
  { image: 'multi:list', by: 'digest' },
  { image: 'multi:list', by: 'tag', platform: 'linux/amd64' },
];

export function nameOfCase({ image, by, platform }: Case): string {
  return `${image} by ${by}${platform === undefined ? '' : ` for ${platform}`}`;
}

/** What a container of the changed image prints. */
export function outputOf({ image }: Case): string {
  const isFull = image.startsWith('cfg:full');
  const [entry = ''] = fullLines;
  return [
    `arguments: ${isFull ? entry.slice('entry: '.length) : '/bin/sh'}`,
    'directory: /injected',
    'greeting: injected',
    `chain: ${isFull ? '["/bin/entry"]' : ''}`,
    'a file that was injected',
    '',
  ].join('\n');
}

/** Makes the container request of a case. */
export function requestCase(
  sluice: Sluice,
  pushed: ReadonlyMap<string, Pushed>,
  { image, by, platform }: Case,
): Promise<ContainerResponse> {
  const known = pushed.get(image);
  assert.ok(known, image);
  return sluice.request({
    containerImage: by === 'tag' ? known.reference : byDigest(known),
    containerConfig: change,
    ...(platform === undefined ? {} : { containerPlatform: platform }),
  });
}

export function byDigest({ reference, tag, digest }: Pushed): string {
  return `${reference.slice(0, -tag.length - 1)}@${digest}`;
}

/** A configuration of Sluice that lets it use registries of the tests. */
export function plainRegistries(...hosts: readonly string[]): object {
  return { registries: Object.fromEntries(hosts.map(host => [host, { plainHttp: true }])) };
}

/** Returns the standard output. */
export function assertSuccess({ code, stdout, stderr }: Result, what = ''): string {
  assert.equal(code, 0, `${what}: ${stderr || stdout}`);
  return stdout;
}

/** The JSON document at a route of a served name. */
export async function fetchJson<T>(sluice: Sluice, name: string, route: string): Promise<T> {
  const response = await fetch(sluice.at(name, route));
  assert.equal(response.status, 200, `${route}: ${response.status}`);
  return (await response.json()) as T;
}

/** The digest of an image of the corpus, without pushing it. */
export async function digestOf(name: string): Promise<string> {
  return (await makeImage(name)).root.digest;
}

/** The variables that tell the entrypoint of the base. */
export function chainOf(entrypoint: readonly string[]): string[] {
  const list = JSON.stringify(entrypoint);
  const [word = ''] = entrypoint;
  return [
    `SLUICE_ENTRY_CHAIN=${list}`,
    `WAVE_ENTRY_CHAIN=${entrypoint.length === 1 ? word : list}`,
  ];
}

/** The annotations that a changed OCI image has beside those of its base. */
export function baseAnnotations(digest: string, name: string): Record<string, string> {
  const base = 'org.opencontainers.image.base';
  return { [`${base}.digest`]: digest, [`${base}.name`]: name };
}
