import { Fault } from '../../foundation/fault.ts';
import { RunQueue } from '../../foundation/run-queue.ts';
import { readAll } from '../../upstream/exchange/answer.ts';
import type { ChannelAccess } from '../channels/channel-access.ts';
import { channelsOf, readWrittenChannel } from '../channels/channel-address.ts';
import { ChannelFault } from '../channels/channel-fault.ts';
import type { CondaPackage } from '../conda-package.ts';
import type { CondaSolver, SolveOptions, SolveWish, VirtualPackage } from './conda-solver.ts';
import type { LockedRecord } from './solve-messages.ts';
import { SolveThread, Unsolved } from './solve-thread.ts';

export interface CondaSolverDeps {
  readonly channels: ChannelAccess;
}

const virtualRepo = 'virtual';
const maxFileBytes = 512 * 1024 * 1024;

export function createCondaSolver({ channels }: CondaSolverDeps): CondaSolver {
  const queue = new RunQueue(1);
  let thread: SolveThread | undefined;
  let lastId = 0;

  const solve = async (wish: SolveWish, { signal }: SolveOptions) => {
    signal.throwIfAborted();
    if (thread === undefined || thread.isLost) thread = new SolveThread();
    lastId += 1;
    const bases = wish.channels
      .flatMap(channel => channelsOf(readWrittenChannel(channel).channel))
      .map(channels.baseUrl);
    const order = {
      solve: lastId,
      specs: wish.specs,
      channels: bases,
      platforms: [wish.subdir, 'noarch'],
      locked: [
        ...wish.virtualPackages.map(one => virtualRecord(one, wish.subdir)),
        ...(wish.locked ?? []).map(lockedRecord),
      ],
    };
    const packages = await thread.solve(order, async url => {
      try {
        const { body } = await channels.open(url, { signal });
        return { status: 200, bytes: await readAll(body, maxFileBytes, url) };
      } catch (error) {
        if (!(error instanceof ChannelFault) || error.answered === undefined) throw error;
        return { status: error.answered, bytes: new Uint8Array() };
      }
    });
    return packages
      .filter(({ name }) => !name.startsWith('__'))
      .toSorted((a, b) => (a.name < b.name ? -1 : 1));
  };

  return {
    solve: (wish, options) =>
      queue.run(() => solve(wish, options).catch(error => refuse(error, wish))),
    async close() {
      await thread?.stop();
    },
  };
}

function refuse(error: unknown, { channels }: SolveWish): never {
  if (!(error instanceof Unsolved)) throw error;
  throw new Fault(
    'bad-request',
    `The packages cannot be installed together from ${channels.join(', ')}: ${error.message}`,
    { phase: 'build', cause: error },
  );
}

/** A virtual package is given to the solver as one that is installed already. */
function virtualRecord(
  { name, version, build = '0' }: VirtualPackage,
  subdir: string,
): LockedRecord {
  const filename = `${name}-${version}-${build}.conda`;
  return {
    ...{ version, build, filename, subdir },
    url: `http://${virtualRepo}/${subdir}/${filename}`,
    packageName: name,
    buildNumber: 0n,
    depends: [],
    repoName: virtualRepo,
  };
}

function lockedRecord(it: CondaPackage): LockedRecord {
  const { url, version, build, depends, subdir, md5, sha256, size } = it;
  return {
    ...{ url, version, build, depends, subdir, md5, sha256 },
    packageName: it.name,
    buildNumber: BigInt(it.buildNumber),
    filename: it.fileName,
    repoName: url.slice(0, url.lastIndexOf(`/${subdir}/`)),
    size: size === undefined ? undefined : BigInt(size),
  };
}
