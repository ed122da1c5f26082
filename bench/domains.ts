import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { build, memoryTree } from '../src/buildkit/index.ts';
import { domainHosts, numberedBuild } from '../src/builds/builder/build-host.ts';
import { type Builders, createBuilders } from '../src/builds/builder/builders.ts';
import { findBuilders } from '../src/builds/builder/find-builders.ts';
import { domainLabel, domainOfCaller, type TrustDomain } from '../src/builds/domain.ts';
import { createLogger } from '../src/foundation/telemetry.ts';
import { eventually } from '../test/world/eventually.ts';
import { makeTempDir } from '../test/world/temp-dir.ts';
import { buildkitDirectory, requireBusybox } from '../test/world/tools.ts';
import type { Part } from './report.ts';
import { residentBytes } from './resident-memory.ts';
import { interleave, median, ratio } from './stats.ts';

const log = createLogger('silent');
const never = new AbortController().signal;
const rounds = 7;
const users = 50;
const atOnce = 2;
const limits = { memoryBytes: 2 ** 30, processes: 500, processors: undefined };

const userOf = (owner: string): TrustDomain => domainOfCaller({ owner, isTrusted: true });

/** (o) Builds of several users on the builders that the server starts, compared with those of one user. */
export async function domains(): Promise<Part[]> {
  await using directory = await makeTempDir('bench');
  const found = findBuilders({
    configured: [],
    usual: [],
    plainHttp: [],
    log,
    idleMs: 1,
    directory: directory.join('builders'),
    folders: [buildkitDirectory()],
    containment: {
      openHosts: { builder: [], steps: [] },
      each: limits,
      all: limits,
      buildDiskBytes: 2 ** 30,
      stateBytes: 2 ** 33,
    },
  });
  const builders = createBuilders({ source: found, log });
  const busybox = { data: await readFile(requireBusybox('amd64')), mode: 0o755 };
  const context = memoryTree({ busybox });
  const smallBuild = async (domain: TrustDomain) => {
    const began = performance.now();
    await builders.use({ domain, platforms: [] }, never, client =>
      build(client, {
        dockerfile: `FROM scratch\nCOPY busybox /bin/sh\nRUN echo ${randomUUID()} > /made\n`,
        context,
        extraHosts: { ...numberedBuild(), ...domainHosts(domainLabel(domain)) },
      }),
    );
    return performance.now() - began;
  };
  try {
    const warm = userOf('warm');
    const { fresh, same } = await interleave(
      { fresh: () => smallBuild(userOf(randomUUID())), same: () => smallBuild(warm) },
      rounds,
    );
    const memory = await memoryOf(builders, warm);
    const began = performance.now();
    await inTurns(users, () => smallBuild(warm));
    const ofOne = performance.now() - began;
    const start = performance.now();
    await inTurns(users, () => smallBuild(userOf(randomUUID())));
    const ofAll = performance.now() - start;
    const label = directory.join(`builders/domain-${domainLabel(warm)}/running.json`);
    await eventually('the builder has ended', () => !existsSync(label), 60_000);
    return [
      {
        letter: 'o',
        title: 'Builds of users who share no builder',
        rows: [
          {
            what: 'First build of a user, more than a build of one whose builder runs',
            figure: `${Math.round(median(fresh) - median(same))} ms`,
            aim: 'at most 1500 ms',
            medians: `${Math.round(median(fresh))} ms : ${Math.round(median(same))} ms`,
          },
          {
            what: 'Memory of a running builder',
            figure: `${Math.round(memory / 2 ** 20)} MiB`,
            aim: 'under 40 MiB, or ended',
            medians: 'without builds it ends, and nothing stays',
          },
          {
            what: `${users} builds of as many new users : of one user, ${atOnce} at once`,
            figure: ratio([ofAll], [ofOne]).toFixed(2),
            aim: 'all succeed',
            medians: `${Math.round(ofAll)} ms : ${Math.round(ofOne)} ms`,
          },
        ],
      },
    ];
  } finally {
    await builders.close();
    await found.close();
  }
}

/** Returns the memory of all processes of the builder of a domain. */
async function memoryOf(builders: Builders, domain: TrustDomain): Promise<number> {
  return builders.use({ domain, platforms: [] }, never, async ({ address }) => {
    const folder = address.slice('unix://'.length).replace(/\/[^/]*$/, '');
    const listed = execFileSync('ps', ['-eo', 'pid=,args='], { encoding: 'utf8' });
    const own = listed
      .split('\n')
      .filter(line => line.includes(folder) || line.includes(domainLabel(domain)));
    return own.reduce((sum, line) => sum + residentBytes(Number.parseInt(line, 10)), 0);
  });
}

async function inTurns(count: number, work: () => Promise<unknown>): Promise<void> {
  let left = count;
  const lane = async () => {
    while (left-- > 0) await work();
  };
  await Promise.all(Array.from({ length: atOnce }, lane));
}
