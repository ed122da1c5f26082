import { execFile } from 'node:child_process';
import { stat } from 'node:fs/promises';
import { promisify } from 'node:util';
import { startCondaChannels } from '../test/world/conda-channels.ts';
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

/** (q) An image with scanpy and multiqc over an index on the loopback, beside `uv pip install`, tar and gzip. */
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
    buildkit: 'off',
    builds: { uv: requireUv() },
    pypi: { 'https://pypi.org/simple': { url: mirror.url, allowPrivateAddress: true } },
  };
  const bodyOf = (entries: readonly string[]) => ({
    packages: {
      type: 'CONDA',
      channels: ['conda-forge'],
      entries: entries.map(entry => `pip:${entry}`),
      condaOpts: { baseImage: `${registry.host}/debian:1`, basePackages: '' },
    },
  });
  const make = async (sluice: Sluice, entries: readonly string[]): Promise<number> => {
    const began = performance.now();
    const { buildId } = await sluice.request(bodyOf(entries));
    const path = `/v1alpha1/builds/${buildId}`;
    const log = await (await sluice.fetch(`${path}/logs?follow=true`)).text();
    const took = performance.now() - began;
    const status = (await (await sluice.fetch(`${path}/status`)).json()) as object;
    if (!('succeeded' in status) || status.succeeded !== true) throw new Error(log);
    const [, found] = /and (\d+) of PyPI/.exec(log) ?? [];
    sizes.packages = Number(found);
    return took;
  };
  const solve = async (sluice: Sluice, entries: readonly string[]): Promise<number> => {
    const began = performance.now();
    await sluice.request({ ...bodyOf(entries), dryRun: true });
    return performance.now() - began;
  };
  const sizes = { packages: 0, theirs: 0 };
  const beyond: number[] = [];
  let round = 0;
  const times = await interleave(
    {
      async sluice() {
        round += 1;
        await using sluice = await startMeasuredSluice({ config });
        const first = await make(sluice, wishes);
        // Other wishes with the same packages: another image, whose layers are here.
        const again = wishes.map(wish => (wish.includes('=') ? wish : `${wish}>=0`));
        // The first dry run reads what the others find in memory.
        await solve(sluice, again);
        const solved = await solve(sluice, again);
        beyond.push((await make(sluice, again)) - solved);
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
  const seconds = (ms: readonly number[]) => `${(median(ms) / 1000).toFixed(2)} s`;
  return [
    {
      letter: 'q',
      title: `Python packages, scanpy and multiqc with ${sizes.packages} wheels`,
      rows: [
        {
          what: 'nothing there: from the request to the pushed image, beside `uv pip install`, tar and gzip',
          figure: `${ratio(times.sluice, times.uv).toFixed(2)} x`,
          aim: 'at most 1',
          medians: `${seconds(times.sluice)}, with Python of Conda and the push; ${seconds(times.uv)} and ${Math.round(sizes.theirs / 1e6)} MB, without`,
        },
        {
          what: 'everything there: from the request to the pushed image, beyond a dry run of the same',
          figure: `${Math.round(median(beyond.slice(1)))} ms`,
          aim: 'at most 300 ms',
          medians: '',
        },
      ],
    },
  ];
}
