import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { pushCorpus } from '../test/corpus/corpus.ts';
import { startBuildkitd } from '../test/world/buildkitd.ts';
import { startRegistry } from '../test/world/registry.ts';
import { type Sluice, startMeasuredSluice } from '../test/world/sluice.ts';
import { makeTempDir } from '../test/world/temp-dir.ts';
import { buildkitDirectory } from '../test/world/tools.ts';
import type { Part } from './report.ts';
import { interleave, median, ratio } from './stats.ts';

const run = promisify(execFile);
const rounds = 9;
const many = 50;
const atOnce = 4;

/** (g) Builds through Sluice, compared with buildctl on the same builder; both push to the same registry. */
export async function builds(): Promise<Part[]> {
  await using directory = await makeTempDir('bench');
  await using registry = await startRegistry();
  const pushed = await pushCorpus(registry, ['busybox:oci']);
  const base = pushed.get('busybox:oci')?.reference ?? '';
  await using buildkitd = await startBuildkitd();
  await using sluice = await startMeasuredSluice({
    config: {
      buildkit: [buildkitd.address],
      builds: { concurrent: atOnce },
      limits: { builds: { anonymous: 'off' } },
      registries: { [registry.host]: { plainHttp: true } },
    },
  });

  const bySluice = (dockerfile: string) =>
    buildThrough(sluice, dockerfile, `${registry.host}/bench/${randomUUID()}`);
  const byBuildctl = async (dockerfile: string) => {
    const folder = join(directory.path, randomUUID());
    await mkdir(folder);
    await writeFile(join(folder, 'Dockerfile'), dockerfile);
    const name = `${registry.host}/bench/${randomUUID()}:1`;
    await run(join(buildkitDirectory(), 'buildctl'), [
      ...['--addr', buildkitd.address, 'build', '--frontend', 'dockerfile.v0'],
      ...['--local', `context=${folder}`, '--local', `dockerfile=${folder}`],
      ...['--output', `type=image,name=${name},push=true`],
    ]);
  };
  const dockerfileOf = (text: string) => `FROM ${base}\nRUN echo ${text} > /made\n`;
  const known = dockerfileOf('known');
  const cached = await interleave(
    {
      ours: () => milliseconds(() => bySluice(known)),
      theirs: () => milliseconds(() => byBuildctl(known)),
    },
    rounds,
  );
  const small = await interleave(
    {
      ours: () => milliseconds(() => bySluice(dockerfileOf(randomUUID()))),
      theirs: () => milliseconds(() => byBuildctl(dockerfileOf(randomUUID()))),
    },
    rounds,
  );
  const queued = await interleave(
    {
      ours: () =>
        milliseconds(() => inParallel(many, many, () => bySluice(dockerfileOf(randomUUID())))),
      theirs: () =>
        milliseconds(() => inParallel(many, atOnce, () => byBuildctl(dockerfileOf(randomUUID())))),
    },
    3,
  );
  const repository = `${registry.host}/bench/there`;
  await buildThrough(sluice, known, repository);
  const there: number[] = [];
  for (let round = 0; round < 50; round += 1) {
    there.push(await milliseconds(() => ask(sluice, known, repository)));
  }

  const row = (
    what: string,
    { ours, theirs }: { readonly ours: number[]; readonly theirs: number[] },
    aim: string,
  ) => ({
    what: `${what}: Sluice : buildctl`,
    figure: ratio(ours, theirs).toFixed(2),
    aim,
    medians: `${Math.round(median(ours))} ms : ${Math.round(median(theirs))} ms`,
  });
  return [
    {
      letter: 'g',
      title: 'Builds, pushed to the same registry',
      rows: [
        row('A build that the builder has', cached, 'at most 1.1, and 30 ms'),
        row('A small build', small, 'at most 1.1, and 30 ms'),
        row(`${many} small builds, ${atOnce} at once`, queued, '1.0'),
        {
          what: 'Request for an image that was built',
          figure: `${median(there).toFixed(1)} ms`,
          aim: 'under 10 ms',
          medians: `${Math.max(...there).toFixed(1)} ms at most`,
        },
      ],
    },
  ];
}

interface Answer {
  readonly buildId: string;
  readonly succeeded?: boolean;
}

async function ask(sluice: Sluice, dockerfile: string, buildRepository: string): Promise<Answer> {
  const containerFile = Buffer.from(dockerfile).toString('base64');
  return (await sluice.request({ containerFile, buildRepository })) as unknown as Answer;
}

/** Waits by following the log, as buildctl does: the polls of fifty clients would distort the measurement. */
async function buildThrough(sluice: Sluice, dockerfile: string, repository: string): Promise<void> {
  const { buildId } = await ask(sluice, dockerfile, repository);
  await (await sluice.fetch(`/v1alpha1/builds/${buildId}/logs?follow=true`)).text();
  const answer = await sluice.fetch(`/v1alpha1/builds/${buildId}/status`);
  const { status, succeeded } = (await answer.json()) as { status: string; succeeded?: boolean };
  if (status !== 'COMPLETED' || !succeeded) throw new Error(`the build ${buildId} failed`);
}

async function milliseconds(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now();
  await work();
  return performance.now() - began;
}

async function inParallel(count: number, width: number, work: () => Promise<void>): Promise<void> {
  let left = count;
  const worker = async () => {
    while (left > 0) {
      left -= 1;
      await work();
    }
  };
  await Promise.all(Array.from({ length: width }, worker));
}
