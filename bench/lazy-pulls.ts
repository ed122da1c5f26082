import { execFileSync } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { copyFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { contentOf, type Descriptor, mediaTypes } from '../test/corpus/content.ts';
import { imageOf } from '../test/corpus/image.ts';
import { Pusher, type PushTarget } from '../test/corpus/push.ts';
import { writeFolderLayer } from '../test/sif/distribution-layer.ts';
import { startCondaChannels } from '../test/world/conda-channels.ts';
import type { CondaPackage } from '../test/world/conda-package.ts';
import { pythonPackages } from '../test/world/conda-python.ts';
import { type Containerd, startContainerd } from '../test/world/containerd.ts';
import { waitForLine } from '../test/world/daemon.ts';
import { pushDebianImage } from '../test/world/debian-image.ts';
import { tocAnnotation } from '../test/world/estargz.ts';
import { indexOfPip } from '../test/world/python-index.ts';
import { startRegistry } from '../test/world/registry.ts';
import { type Sluice, startMeasuredSluice } from '../test/world/sluice.ts';
import { makeTempDir } from '../test/world/temp-dir.ts';
import { requireConda, requireStargz, requireUv, rootDirectory } from '../test/world/tools.ts';
import { startPythonMirror } from './peers/python-mirror.ts';
import type { Part } from './report.ts';
import { interleave, median } from './stats.ts';

const rounds = 2;
const wishes = [
  ...['numpy', 'scipy', 'pandas', 'scikit-learn', 'matplotlib', 'pyarrow', 'numba'],
  ...['opencv-python-headless', 'tensorflow-cpu'],
];
const folder = '/tmp/stargz';
const socket = `${folder}/socket`;
const config = `
version = 2
disabled_plugins = ['io.containerd.grpc.v1.cri']
[proxy_plugins.stargz]
  type = 'snapshot'
  address = '${socket}'
  [proxy_plugins.stargz.exports]
    enable_remote_snapshot_annotations = 'true'
[[plugins.'io.containerd.transfer.v1.local'.unpack_config]]
  platform = 'linux'
  snapshotter = 'overlayfs'
[[plugins.'io.containerd.transfer.v1.local'.unpack_config]]
  platform = 'linux'
  snapshotter = 'stargz'
`;
/** The rest of a layer is not fetched in the background: its bytes would depend on the time of the measurement. */
const settings = { no_background_fetch: true };

interface Start {
  /** Milliseconds until the image is there, and until the program has ended. */
  readonly pulled: number;
  readonly ran: number;
  readonly bytes: number;
  readonly requests: number;
}

/**
 * (r) A container that imports numpy from an environment of about 1 GB: pulled lazily from layers in the eStargz form, and
 * pulled whole from the usual layers, by containerd.
 */
export async function lazyPulls(): Promise<Part[]> {
  await using mirror = await startPythonMirror(indexOfPip());
  await using registry = await startRegistry();
  await using served = await startCondaChannels({
    'conda-forge': [...pythonPackages(), libraries()],
  });
  await pushDebianImage(registry, 'debian');
  await pushLazyBase(registry, 'lazy');
  await using sluice = await startMeasuredSluice({
    config: {
      buildkit: 'off',
      builds: { uv: requireUv() },
      channels: served.settings,
      limits: { builds: { anonymous: 'off' }, pulls: { anonymous: 'off' } },
      registries: { [registry.host]: { plainHttp: true } },
      pypi: { 'https://pypi.org/simple': { url: mirror.url, allowPrivateAddress: true } },
    },
  });
  const make = async (base: string, more: object = {}): Promise<string> => {
    const { buildId, targetImage } = await sluice.request({
      packages: {
        type: 'CONDA',
        channels: ['conda-forge'],
        entries: ['libstdcxx', ...wishes.map(wish => `pip:${wish}`)],
        condaOpts: { baseImage: `${registry.host}/${base}:1`, basePackages: '' },
      },
      ...more,
    });
    const path = `/v1alpha1/builds/${buildId}`;
    const log = await (await sluice.fetch(`${path}/logs?follow=true`)).text();
    const status = (await (await sluice.fetch(`${path}/status`)).json()) as object;
    if (!('succeeded' in status) || status.succeeded !== true) throw new Error(log);
    return targetImage;
  };
  const estargz = { buildCompression: { mode: 'estargz' } };
  const whole = await make('debian');
  const lazy = await make('lazy', estargz);
  const converted = await make('debian', estargz);
  const usualBase = await make('debian', { buildCompression: { mode: 'estargz', force: false } });
  // Its layers are at another registry, and Sluice relays them.
  const buildRepository = `${registry.host}/team/environment`;
  const containerImage = await make('lazy', { ...estargz, freeze: true, buildRepository });
  const containerConfig = { env: ['RELAYED=1'] };
  const { targetImage: relayed } = await sluice.request({ containerImage, containerConfig });
  const starts = new Map<string, Start[]>();
  const starting = (name: string, image: string, snapshotter: string) => async () => {
    const start = await startAndImport(sluice, image, snapshotter);
    starts.set(name, [...(starts.get(name) ?? []), start]);
    return start.ran;
  };
  await interleave(
    {
      whole: starting('whole', whole, 'overlayfs'),
      lazy: starting('lazy', lazy, 'stargz'),
      relayed: starting('relayed', relayed, 'stargz'),
      converted: starting('converted', converted, 'stargz'),
      usualBase: starting('usualBase', usualBase, 'stargz'),
    },
    rounds,
  );
  const startOf = (name: string): Start => {
    const [, ...counted] = starts.get(name) ?? [];
    const of = (key: keyof Start) => median(counted.map(start => start[key]));
    return { pulled: of('pulled'), ran: of('ran'), bytes: of('bytes'), requests: of('requests') };
  };
  const other = startOf('whole');
  const rowsOf = (what: string, name: string) => {
    const one = startOf(name);
    return [
      {
        what: `${what}: bytes read from Sluice until the program had ended, lazily : whole`,
        figure: (one.bytes / other.bytes).toFixed(3),
        aim: '',
        medians: `${inMegabytes(one)} : ${inMegabytes(other)}`,
      },
      {
        what: `${what}: time until the program had ended, lazily : whole`,
        figure: (one.ran / other.ran).toFixed(2),
        aim: '',
        medians: `${inSeconds(one)} : ${inSeconds(other)}`,
      },
    ];
  };
  return [
    {
      letter: 'r',
      title: `\`import numpy\` of an environment with ${wishes.length} large packages, pulled by containerd over the loopback`,
      rows: [
        ...rowsOf('layers that Sluice has', 'lazy'),
        ...rowsOf('layers that Sluice relays', 'relayed'),
        ...rowsOf('a base image whose layers Sluice has compressed again', 'converted'),
        ...rowsOf('a base image in gzip', 'usualBase'),
      ],
    },
  ];
}

function inMegabytes({ bytes, requests }: Start): string {
  return `${(bytes / 1e6).toFixed(1)} MB in ${requests} requests`;
}

function inSeconds({ ran, pulled }: Start): string {
  const seconds = (ms: number) => `${(ms / 1000).toFixed(2)} s`;
  return `${seconds(ran)}, pulled after ${seconds(pulled)}`;
}

/** Pushes a small Debian whose layer is in the eStargz form, as its builder would. */
async function pushLazyBase(target: PushTarget, repository: string): Promise<void> {
  await using directory = await makeTempDir('bench');
  const [usual, written] = [directory.join('usual'), directory.join('written')];
  await writeFolderLayer(join(requireConda(), 'system'), usual);
  const result = execFileSync(requireStargz(), ['write', usual, written], { encoding: 'utf8' });
  const [diffId = '', toc = ''] = result.trim().split(' ');
  const content = contentOf(`${mediaTypes.ociLayer}+gzip`, readFileSync(written));
  const image = imageOf({
    layers: [{ content, diffId }],
    manifest: manifest => ({
      ...manifest,
      layers: (manifest.layers as Descriptor[]).map(layer => ({
        ...layer,
        annotations: { [tocAnnotation]: toc },
      })),
    }),
  });
  const pusher = await Pusher.open(target, repository);
  await pusher.push(image, '1');
  await pusher.close();
}

/** The libraries of the compiler, which wheels do not bring, as a package. */
function libraries(): CondaPackage {
  const names = '{libstdc++.so.6,libgcc_s.so.1}';
  const found = globSync(`usr/lib/*-linux-gnu/${names}`, { cwd: rootDirectory('bookworm') });
  return {
    name: 'libstdcxx',
    version: '12',
    files: found.map(path => ({
      name: `lib/${basename(path)}`,
      content: readFileSync(join(rootDirectory('bookworm'), path)),
    })),
  };
}

/** Pulls the image with a containerd that has nothing, and imports numpy in a container. */
async function startAndImport(sluice: Sluice, image: string, snapshotter: string): Promise<Start> {
  const files = { '/etc/containerd/config.toml': config };
  await using containerd = await startContainerd({ suite: 'forky', files });
  await startSnapshotter(containerd);
  const before = await readBlobs(sluice);
  const began = performance.now();
  const option = ['--snapshotter', snapshotter];
  await ctr(containerd, ['images', 'pull', '--plain-http', ...option, image]);
  const pulled = performance.now() - began;
  const group = ['--cgroup', `${containerd.root.controlGroup}/container`];
  const libraryPath = ['--env', 'LD_LIBRARY_PATH=/opt/conda/lib'];
  const command = ['/opt/conda/bin/python', '-c', 'import numpy; print(numpy.__version__)'];
  await ctr(containerd, [
    ...['run', '--rm', '--net-host', ...group, ...libraryPath, ...option],
    ...[image, 'c', ...command],
  ]);
  const ran = performance.now() - began;
  const after = await readBlobs(sluice);
  return {
    pulled,
    ran,
    bytes: after.bytes - before.bytes,
    requests: after.requests - before.requests,
  };
}

async function startSnapshotter({ root }: Containerd): Promise<void> {
  await root.exec(['mkdir', '-p', folder]);
  await copyFile(requireStargz(), join(root.directory, folder, 'stargz'));
  const state = `${folder}/state`;
  const daemon = root.spawn([`${folder}/stargz`, 'serve', socket, state, JSON.stringify(settings)]);
  await waitForLine(daemon, /serving$/);
}

async function ctr(containerd: Containerd, args: readonly string[]): Promise<void> {
  const { code, stdout, stderr } = await containerd.ctr(args, { timeoutMs: 300_000 });
  if (code !== 0) throw new Error(`ctr ${args.join(' ')}: ${stdout}${stderr}`);
}

/** Returns how many bytes of blobs the server has sent, in how many responses. */
async function readBlobs(sluice: Sluice): Promise<{ bytes: number; requests: number }> {
  const text = await (await sluice.fetch('/metrics')).text();
  const sum = (name: string) =>
    [...text.matchAll(new RegExp(`^${name}\\{[^}]*\\} (\\S+)$`, 'gm'))]
      .map(([, value]) => Number(value))
      .reduce((total, value) => total + value, 0);
  return { bytes: sum('sluice_blob_bytes_total'), requests: sum('sluice_blobs_total') };
}
