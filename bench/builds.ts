import { execFile } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { promisify } from 'node:util';
import { baseLayer } from '../test/corpus/base.ts';
import { pushCorpus } from '../test/corpus/corpus.ts';
import { type Image, imageOf } from '../test/corpus/image.ts';
import { type Entry, layerOf } from '../test/corpus/layer.ts';
import { Pusher } from '../test/corpus/push.ts';
import { startBuildkitd } from '../test/world/buildkitd.ts';
import { endedProgramsMs, processTreeMs } from '../test/world/processor-time.ts';
import { type Registry, startRegistry } from '../test/world/registry.ts';
import { type Sluice, startMeasuredSluice } from '../test/world/sluice.ts';
import { makeTempDir } from '../test/world/temp-dir.ts';
import { buildkitDirectory, requireTools, rootDirectory } from '../test/world/tools.ts';
import { registryShare } from './registry-share.ts';
import type { Part } from './report.ts';
import { interleave, mean, median, ratio } from './stats.ts';

const run = promisify(execFile);
const rounds = 9;
const cachedRounds = 20;
const warmUps = 40;
const many = 50;
const atOnce = 4;

/** (g) Builds through Sluice, compared with buildctl on the same builder; both push to the same registry. */
export async function builds(): Promise<Part[]> {
  await using directory = await makeTempDir('bench');
  await using registry = await startRegistry();
  const pushed = await pushCorpus(registry, ['busybox:oci']);
  const base = pushed.get('busybox:oci')?.reference ?? '';
  const bare = await pushBare(registry);
  const seeds = await pushSeeds(registry);
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
  const dockerfileOf = (text: string, from = base) => `FROM ${from}\nRUN echo ${text} > /made\n`;
  /** Measures both, and the processor time of server and builder meanwhile, and that of buildctl itself. */
  const compare = async (dockerfile: () => string, count = rounds): Promise<Compared> => {
    const processor: Processor = { ours: [], theirs: [], buildctl: [] };
    const measured = async (who: 'ours' | 'theirs', work: () => Promise<void>) => {
      const used = () => processTreeMs(sluice.process.pid) + processTreeMs(buildkitd.pid);
      const before = used();
      const endedBefore = endedProgramsMs();
      const took = await milliseconds(work);
      processor[who].push(used() - before);
      if (who === 'theirs') processor.buildctl.push(endedProgramsMs() - endedBefore);
      return took;
    };
    const time = await interleave(
      {
        ours: () => measured('ours', () => bySluice(dockerfile())),
        theirs: () => measured('theirs', () => byBuildctl(dockerfile())),
      },
      count,
    );
    // The first round is a warm-up.
    for (const figures of Object.values(processor)) figures.shift();
    return { time, processor };
  };
  const known = dockerfileOf('known');
  const knownOnBare = dockerfileOf('known', bare);
  const first = await compare(() => known);
  // Until then the server compiles its code: each build takes half as much again.
  for (let build = 0; build < warmUps; build += 1) await bySluice(known);
  const cached = await compare(() => known, cachedRounds);
  const cachedOnBare = await compare(() => knownOnBare, cachedRounds);
  const small = await compare(() => dockerfileOf(randomUUID()));
  const withoutHistory = await compare(() => dockerfileOf(randomUUID(), bare));
  const large: [string, Compared][] = [];
  for (const [what, from] of seeds) {
    const dockerfile = () =>
      `FROM ${from} AS seed\nFROM ${base}\nCOPY --from=seed / /${randomUUID()}/\n`;
    large.push([what, await compare(dockerfile, largeRounds)]);
  }
  const share = await registryShare(registry, buildkitd);
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
  const processorRow = ({ processor: { ours, theirs } }: Compared, what = processorText) => ({
    what: `${what}: Sluice : buildctl`,
    figure: (mean(ours) / mean(theirs)).toFixed(2),
    aim: 'at most 1.5',
    medians: `${Math.round(mean(ours))} ms : ${Math.round(mean(theirs))} ms (mean)`,
  });
  /** What Sluice does in the place of buildctl, it does in its server. */
  const wholeRow = ({ processor: { ours, theirs, buildctl } }: Compared) => ({
    what: 'the same, with the process of buildctl: Sluice : buildctl',
    figure: (mean(ours) / (mean(theirs) + mean(buildctl))).toFixed(2),
    aim: '',
    medians: `${Math.round(mean(ours))} ms : ${Math.round(mean(theirs) + mean(buildctl))} ms (mean)`,
  });
  return [
    {
      letter: 'g',
      title: 'Builds, pushed to the same registry',
      rows: [
        row('A build that the builder has', cached.time, 'at most 1.1, and 30 ms'),
        processorRow(cached),
        wholeRow(cached),
        processorRow(cachedOnBare, `${processorText}, on a base without history`),
        processorRow(first, `${processorText}, in the first ten builds of a server`),
        row('A small build', small.time, 'at most 1.1, and 30 ms'),
        processorRow(small),
        row('A small build on a base without history', withoutHistory.time, 'as on others'),
        processorRow(withoutHistory),
        ...large.flatMap(([what, compared]) => [
          row(`A new layer of ${layerMb} MB of ${what}`, compared.time, 'at most 1.5'),
          processorRow(compared),
        ]),
        ...share,
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

interface Compared {
  readonly time: { readonly ours: number[]; readonly theirs: number[] };
  readonly processor: Processor;
}

type Processor = Record<'ours' | 'theirs' | 'buildctl', number[]>;

const processorText = 'the same, processor time of server and builder';

const layerMb = 80;
const largeRounds = 3;

/** Pushes an image whose config has no history; returns its name. */
async function pushBare(registry: Registry): Promise<string> {
  const config = ({ history: _, ...usual }: Record<string, unknown>) => usual;
  return pushOne(registry, 'bare', imageOf({ layers: [await baseLayer()], config }));
}

/** Pushes images of one layer, for steps that copy it; returns what is in them, and their names. */
async function pushSeeds(registry: Registry): Promise<readonly (readonly [string, string])[]> {
  const random = await layerOf([{ name: 'random', content: randomBytes(layerMb * 1e6) }]);
  const libraries = await layerOf(await libraryFiles());
  return [
    ['random bytes', await pushOne(registry, 'random', imageOf({ layers: [random] }))],
    ['libraries', await pushOne(registry, 'libraries', imageOf({ layers: [libraries] }))],
  ];
}

async function pushOne(registry: Registry, repository: string, image: Image): Promise<string> {
  const pusher = await Pusher.open(registry, repository);
  await pusher.push(image, '1');
  await pusher.close();
  return `${registry.host}/${repository}:1`;
}

/** Returns the first files of a Debian system, in the order of their names. */
async function libraryFiles(): Promise<Entry[]> {
  requireTools(['bookworm']);
  const root = join(rootDirectory('bookworm'), 'usr/lib');
  const found = await readdir(root, { recursive: true, withFileTypes: true });
  const paths = found.filter(file => file.isFile()).map(file => join(file.parentPath, file.name));
  const entries: Entry[] = [];
  let bytes = 0;
  for (const path of paths.sort()) {
    const content = await readFile(path);
    bytes += content.length;
    if (bytes > layerMb * 1e6) break;
    entries.push({ name: relative(root, path), content });
  }
  return entries;
}

interface BuildResponse {
  readonly buildId: string;
  readonly succeeded?: boolean;
}

async function ask(
  sluice: Sluice,
  dockerfile: string,
  buildRepository: string,
): Promise<BuildResponse> {
  const containerFile = Buffer.from(dockerfile).toString('base64');
  return (await sluice.request({ containerFile, buildRepository })) as unknown as BuildResponse;
}

/** Waits by following the log, as buildctl does: the polls of fifty clients would distort the measurement. */
async function buildThrough(sluice: Sluice, dockerfile: string, repository: string): Promise<void> {
  const { buildId } = await ask(sluice, dockerfile, repository);
  await (await sluice.fetch(`/v1alpha1/builds/${buildId}/logs?follow=true`)).text();
  const response = await sluice.fetch(`/v1alpha1/builds/${buildId}/status`);
  const { status, succeeded } = (await response.json()) as { status: string; succeeded?: boolean };
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
