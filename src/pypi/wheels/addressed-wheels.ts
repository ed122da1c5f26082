import type { FetchArchive } from '../../conda/index.ts';
import { inRoom, threadNeeds } from '../../conda/layers/gzip/index.ts';
import { runTask } from '../../conda/threads/one-task.ts';
import { Fault } from '../../foundation/fault.ts';
import { Semaphore } from '../../foundation/semaphore.ts';
import { SingleFlight } from '../../foundation/single-flight.ts';
import type { AddressedWheel, BuiltWheel } from '../wheel-file.ts';

/** Reads wheels that requests name by their addresses: a solver must know what they require. */
export interface AddressedWheels {
  /**
   * Fetches a wheel, and returns it with its metadata, and with the digest that it has now where none is stated. Callers share one fetch.
   * Throws a `Fault` for a file that cannot be fetched, has another digest, or is not the wheel that its name says.
   */
  read(wheel: AddressedWheel, caller: WheelCaller): Promise<BuiltWheel>;
}

interface WheelCaller {
  readonly signal: AbortSignal;
  /** True for a caller without a login. Users do not wait for hosts that these name. */
  readonly isAnonymous?: boolean | undefined;
}

/** What the thread reads. */
export interface WheelToRead {
  readonly path: string;
  readonly wheel: AddressedWheel;
}

const worker = new URL('./metadata-worker.ts', import.meta.url);
const longestMs = 20_000;
/** Wheels of all callers that are on this machine for it at the same time. */
const mostAtOnce = 4;
/** Of callers without a login: a host that they name may send as slowly as it likes. */
const mostAnonymous = 2;
const mostWaiting = 500;

/** @param fetchWheel fetches a wheel, and verifies its digest where one is stated */
export function createAddressedWheels(fetchWheel: FetchArchive): AddressedWheels {
  const turns = new Semaphore({
    limit: mostAtOnce,
    perKey: 2,
    low: { limit: mostAnonymous, passedBy: mostAtOnce },
    mostWaiting,
    refusal: tooBusy,
  });
  const reads = new SingleFlight<BuiltWheel>();

  const read = async (
    wheel: AddressedWheel,
    { signal, isAnonymous: isLow = false }: WheelCaller,
  ): Promise<BuiltWheel> => {
    const { host } = new URL(wheel.url);
    using _turn = await turns.take({ key: host, signal, isLow });
    await using archive = await fetchWheel(wheel, signal);
    const { path, size, sha256 } = archive;
    const metadata = await inRoom(threadNeeds.layer, () => readOnThread({ path, wheel }, signal));
    return { ...wheel, size, sha256, metadata };
  };

  return {
    read(wheel, { signal, isAnonymous }) {
      // A user would wait for the turn of the other one.
      const key = JSON.stringify([wheel, isAnonymous]);
      return reads.run(stop => read(wheel, { signal: stop, isAnonymous }), { key, signal });
    },
  };
}

async function readOnThread(order: WheelToRead, signal: AbortSignal): Promise<string> {
  const stop = AbortSignal.any([signal, AbortSignal.timeout(longestMs)]);
  try {
    return await runTask<WheelToRead, string>(worker, order, stop);
  } catch (error) {
    if (error instanceof Fault || signal.aborted) throw error;
    const { fileName, url } = order.wheel;
    throw new Fault(
      'bad-request',
      `The list of files in ${fileName} at ${new URL(url).host} takes too long or too much memory to read: name another version`,
      { phase: 'build', cause: error },
    );
  }
}

function tooBusy(): Fault {
  return new Fault('unavailable', 'Too many wheels at addresses are being read: try again later', {
    phase: 'limit',
    limit: 'wheels at addresses read at once',
    retryAfterSeconds: 30,
  });
}
