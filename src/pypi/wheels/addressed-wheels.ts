import type { FetchArchive } from '../../conda/index.ts';
import { ArchiveProblem } from '../../conda/installing/index.ts';
import { inRoom, threadNeeds } from '../../conda/layers/gzip/index.ts';
import { runTask } from '../../conda/threads/one-task.ts';
import { Fault } from '../../foundation/fault.ts';
import { Semaphore } from '../../foundation/semaphore.ts';
import { SingleFlight } from '../../foundation/single-flight.ts';
import { IndexFault } from '../indexes/index-access.ts';
import { MetadataMissing, type WheelMetadataSource } from '../indexes/wheel-metadata-source.ts';
import type { AddressedWheel, BuiltWheel, WheelFile } from '../wheel-file.ts';
import { checkMetadata, readMetadata } from './wheel-metadata.ts';

/** Reads wheels that requests name by their addresses: a solver must know what they require. */
export interface AddressedWheels {
  /**
   * Returns a wheel with its metadata, and with the digest that it has now where none is stated. One with a stated digest, which is
   * verified when it is installed, is read in parts; any other is fetched. Callers share one fetch. Throws a `Fault` for a file that
   * cannot be fetched, or is not the wheel that its name says.
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

/** More than that of any package; what is read on a thread has the same limit. */
const maxMetadataBytes = 1024 * 1024;

export function createAddressedWheels(deps: {
  /** Fetches a wheel, and verifies its digest where one is stated. */
  readonly fetchWheel: FetchArchive;
  readonly metadata: WheelMetadataSource;
}): AddressedWheels {
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
    const { sha256: stated } = wheel;
    if (stated !== undefined) {
      const known = { ...wheel, sha256: stated };
      const found = await readInParts(deps.metadata, known, signal);
      if (found !== undefined) return { ...known, metadata: found };
    }
    await using archive = await deps.fetchWheel(wheel, signal);
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

/** Returns the metadata of a wheel; undefined where parts of it do not show them, or show those of another one. */
async function readInParts(
  source: WheelMetadataSource,
  wheel: WheelFile,
  signal: AbortSignal,
): Promise<string | undefined> {
  const { url, fileName, size, sha256: digest } = wheel;
  const file = { url, fileName, size, digest, metadata: 'inside' } as const;
  try {
    const fetching = { signal, caller: 'addresses', isKept: false, onBytes() {} };
    const bytes = await source.read(file, fetching);
    if (bytes.length > maxMetadataBytes) return undefined;
    const text = bytes.toString('utf8');
    checkMetadata(readMetadata(text), wheel);
    return text;
  } catch (error) {
    const isOfWheel = error instanceof MetadataMissing || error instanceof ArchiveProblem;
    // A host can refuse parts alone. What fetches all of it says what is wrong otherwise.
    if (isOfWheel || error instanceof IndexFault) return undefined;
    throw error;
  }
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
