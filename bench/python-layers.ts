import { execFile } from 'node:child_process';
import { stat } from 'node:fs/promises';
import { promisify } from 'node:util';
import { startBuildkitd } from '../test/world/buildkitd.ts';
import { startCondaChannels } from '../test/world/conda-channels.ts';
import { pushCondaImages } from '../test/world/conda-image.ts';
import { pythonPackages } from '../test/world/conda-python.ts';
import { pushDebianImage } from '../test/world/debian-image.ts';
import { indexOfPip } from '../test/world/python-index.ts';
import { startRegistry } from '../test/world/registry.ts';
import { type Sluice, startMeasuredSluice } from '../test/world/sluice.ts';
import { makeTempDir } from '../test/world/temp-dir.ts';
import { requireUv } from '../test/world/tools.ts';
import { startPythonMirror } from './peers/python-mirror.ts';
import type { Part } from './report.ts';
import { interleave, median, ratio } from './stats.ts';

const rounds = 2;
const run = promisify(execFile);
const wishes = ['scanpy', 'multiqc==1.25'];

/**
 * (q) An image with scanpy and multiqc over an index on the loopback, beside `uv pip install`, tar and gzip, and beside the same requests
 * through BuildKit.
 */
export async function pythonLayers(): Promise<Part[]> {
  await using directory = await makeTempDir('bench');
  await using mirror = await startPythonMirror(indexOfPip());
  await using registry = await startRegistry();
  await using served = await startCondaChannels({ 'conda-forge': pythonPackages() });
  await pushDebianImage(registry, 'debian');
  const config = {
    limits: { builds: { anonymous: 'off' } },
    registries: { [registry.host]: { plainHttp: true } },
    channels: served.settings,
    pypi: { 'https://pypi.org/simple': { url: mirror.url, allowPrivateAddress: true } },
  };
  const native = { ...config, buildkit: 'off', builds: { uv: requireUv() } };
  const bodyOf = (entries: readonly string[], condaOpts: object) => ({
    packages: {
      type: 'CONDA',
      channels: ['conda-forge'],
      entries,
      condaOpts: { baseImage: `${registry.host}/debian:1`, basePackages: '', ...condaOpts },
    },
  });
  const python = (entries: readonly string[]) => entries.map(entry => `pip:${entry}`);
  const make = async (
    sluice: Sluice,
    entries: readonly string[],
    condaOpts: object = {},
  ): Promise<number> => {
    const began = performance.now();
    const { buildId } = await sluice.request(bodyOf(entries, condaOpts));
    const path = `/v1alpha1/builds/${buildId}`;
    const log = await (await sluice.fetch(`${path}/logs?follow=true`)).text();
    const took = performance.now() - began;
    const status = (await (await sluice.fetch(`${path}/status`)).json()) as object;
    if (!('succeeded' in status) || status.succeeded !== true) throw new Error(log);
    const [, found] = /and (\d+) of PyPI/.exec(log) ?? [];
    if (found !== undefined) sizes.packages = Number(found);
    return took;
  };
  const solve = async (sluice: Sluice, entries: readonly string[]): Promise<number> => {
    const began = performance.now();
    await sluice.request({ ...bodyOf(entries, {}), dryRun: true });
    return performance.now() - began;
  };
  const sizes = { packages: 0, theirs: 0 };
  const beyond: number[] = [];
  const seconds: number[] = [];
  // Other wishes with the same packages: another image, whose layers are here.
  const again = wishes.map(wish => (wish.includes('=') ? wish : `${wish}>=0`));
  /** Both requests on a server and a builder that have nothing: the first, and the second with the same packages. */
  const throughBuildkit = async (): Promise<readonly number[]> => {
    await using buildkitd = await startBuildkitd();
    const { base, manager } = await pushCondaImages(buildkitd.address, registry.host, {
      channelAlias: served.url,
      pipIndex: `${mirror.url}/`,
    });
    await using sluice = await startMeasuredSluice({
      config: { ...config, buildkit: [buildkitd.address], builds: { conda: 'buildkit' } },
    });
    const options = { baseImage: base, mambaImage: manager };
    const entriesOf = (those: readonly string[]) => ['python', 'pip', ...python(those)];
    return [
      await make(sluice, entriesOf(wishes), options),
      await make(sluice, entriesOf(again), options),
    ];
  };
  let round = 0;
  const times = await interleave(
    {
      async sluice() {
        round += 1;
        await using sluice = await startMeasuredSluice({ config: native });
        const first = await make(sluice, python(wishes));
        // The first dry run reads what the others find in memory.
        await solve(sluice, python(again));
        const solved = await solve(sluice, python(again));
        const second = await make(sluice, python(again));
        seconds.push(second);
        beyond.push(second - solved);
        return first;
      },
      async uv() {
        const target = directory.join(`uv-${round}`);
        const archive = directory.join(`uv-${round}.tar.gz`);
        const began = performance.now();
        const options = ['--no-cache', '--only-binary', ':all:', '--python-version', '3.11'];
        const place = ['--index-url', `${mirror.url}/`, '--target', target, '--no-config'];
        await run(requireUv(), ['pip', 'install', ...options, ...place, ...wishes], {
          env: { PATH: process.env.PATH, HOME: directory.path },
        });
        await run('tar', ['-C', target, '-czf', archive, '.']);
        const took = performance.now() - began;
        sizes.theirs = (await stat(archive)).size;
        await run('rm', ['-rf', target, archive]);
        return took;
      },
    },
    rounds,
  );
  // Once: it takes minutes, and the figures are far apart.
  const [firstBuild = Number.NaN, secondBuild = Number.NaN] = await throughBuildkit();
  const text = (ms: number) => `${(ms / 1000).toFixed(2)} s`;
  const faster = (ours: readonly number[], theirs: number) => ({
    figure: `${(theirs / median(ours)).toFixed(1)} times as fast`,
    medians: `${text(median(ours))} : ${text(theirs)}`,
  });
  return [
    {
      letter: 'q',
      title: `Python packages, scanpy and multiqc with ${sizes.packages} wheels`,
      rows: [
        {
          what: 'nothing there: from the request to the pushed image, beside `uv pip install`, tar and gzip',
          figure: `${ratio(times.sluice, times.uv).toFixed(2)} x`,
          aim: 'at most 1',
          medians: `${text(median(times.sluice))}, with Python of Conda and the push; ${text(median(times.uv))} and ${Math.round(sizes.theirs / 1e6)} MB, without`,
        },
        {
          what: 'everything there: from the request to the pushed image, beyond a dry run of the same',
          figure: `${Math.round(median(beyond.slice(1)))} ms`,
          aim: 'at most 300 ms',
          medians: '',
        },
        {
          what: 'nothing there, beside the same request through BuildKit',
          aim: 'at least 5',
          ...faster(times.sluice, firstBuild),
        },
        {
          what: 'everything there, beside the same request through BuildKit',
          aim: 'at least 50',
          ...faster(seconds.slice(1), secondBuild),
        },
      ],
    },
  ];
}
