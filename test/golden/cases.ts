import type { ImageChange } from '../../src/images/augment/image-config.ts';
import type { Digest } from '../../src/oci/digest.ts';

/** A base from the corpus and the change to it. */
export interface GoldenCase {
  readonly image: string;
  readonly change: ImageChange;
}

const digest = (digit: string) => `sha256:${digit.repeat(64)}` as Digest;
const layer = { gzipDigest: digest('a'), gzipSize: 138, tarDigest: digest('b') };
const armLayer = {
  gzipDigest: digest('c'),
  gzipSize: 140,
  tarDigest: digest('d'),
  architecture: 'arm64',
};

const env: ImageChange = { env: ['A=1', 'PATH=/opt/bin:/bin'] };
const everything: ImageChange = {
  entrypoint: ['/opt/entry', '--'],
  cmd: ['run', 'it'],
  env: ['A=1', 'GREETING=bye', 'EMPTY=no longer'],
  workingDir: '/work',
  layers: [layer],
};

/** Every shape of image with its own treatment, by the name of its folder. */
export const cases: Readonly<Record<string, GoldenCase>> = {
  'docker-manifest': { image: 'busybox:v2s2', change: everything },
  'base-name': {
    image: 'busybox:oci',
    change: { ...everything, baseName: 'example.org/busybox:oci' },
  },
  'oci-manifest': { image: 'busybox:oci', change: everything },
  'no-media-type': { image: 'busybox:oci-nomt', change: everything },
  'docker-types-in-oci': { image: 'busybox:mixedfamily', change: everything },
  'zstd-layer': { image: 'busybox:oci-zstd', change: everything },
  'docker-list': { image: 'multi:list', change: everything },
  'oci-index': { image: 'multi:index', change: everything },
  'index-without-media-type': { image: 'multi:index-nomt', change: env },
  'empty-index': { image: 'multi:empty', change: everything },
  'layer-for-one-architecture': { image: 'multi:index', change: { layers: [armLayer] } },
  attestations: { image: 'attest:latest', change: everything },
  'sparse-index': { image: 'attest:sparse', change: env },
  'nested-index': { image: 'attest:nested', change: env },
  'null-config-members': { image: 'cfg:null', change: everything },
  'config-is-null': { image: 'cfg:confignull', change: everything },
  'no-config-member': { image: 'cfg:noconfig', change: everything },
  'entry-chain': { image: 'cfg:full', change: { entrypoint: ['/opt/entry'] } },
  'no-entry-chain': { image: 'cfg:cmd-only', change: { entrypoint: ['/opt/entry'] } },
  'unknown-members-and-big-numbers': { image: 'cfg:unknown-fields', change: env },
  'odd-spelling': { image: 'cfg:rawjson', change: env },
  'no-history': { image: 'hist:none', change: { layers: [layer] } },
  'empty-layer-history': { image: 'hist:emptylayers', change: { layers: [layer] } },
  'history-mismatch': { image: 'hist:mismatch', change: { layers: [layer, armLayer] } },
  'many-layers': { image: 'layers:120', change: { layers: [layer] } },
  'no-layers': { image: 'layers:none', change: { layers: [layer] } },
  'data-member': { image: 'odd:data', change: everything },
  'oras-artifact': { image: 'artifact:oras11', change: everything },
  'sif-artifact': { image: 'artifact:sif', change: everything },
};
