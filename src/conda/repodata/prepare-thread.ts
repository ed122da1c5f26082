import { endThread, startThread } from '../../foundation/work.ts';
import { makeRoom } from '../threads/idle-threads.ts';
import { inRoom, threadNeeds } from '../threads/thread-room.ts';
import type { PrepareOrder, PrepareResponse } from './prepare-worker.ts';
import { RepodataError } from './shards/json-records.ts';

/**
 * Prepares downloaded repository data on its own thread. Returns the upstream URL of its shards; undefined when the
 * new file has them all. Throws a {@link RepodataError} when the data is not what it should be.
 *
 * @param onBegin called when there is room for the thread
 */
export function prepareRepodata(
  order: PrepareOrder,
  signal: AbortSignal,
  onBegin: () => void,
): Promise<string | undefined> {
  return inRoom(threadNeeds.repodata, () => {
    onBegin();
    return prepareOn(order, signal);
  });
}

async function prepareOn(order: PrepareOrder, signal: AbortSignal): Promise<string | undefined> {
  await makeRoom();
  signal.throwIfAborted();
  const { promise, resolve, reject } = Promise.withResolvers<PrepareResponse>();
  const worker = startThread(new URL('./prepare-worker.ts', import.meta.url), {
    workerData: order,
    // It holds the places of all records, and the records of one package.
    resourceLimits: { maxOldGenerationSizeMb: 128, maxYoungGenerationSizeMb: 8 },
  });
  worker.on('message', resolve);
  worker.on('error', reject);
  worker.on('exit', () => reject(new Error('the thread for repository data ended')));
  const stop = () => {
    reject(signal.reason);
  };
  signal.addEventListener('abort', stop, { once: true });
  try {
    const response = await promise;
    if ('wrong' in response) throw new RepodataError(response.wrong);
    if ('failed' in response)
      throw Object.assign(new Error(response.failed), { code: response.code });
    return response.shards;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_WORKER_OUT_OF_MEMORY') {
      throw new RepodataError(
        'has more packages than fit into the memory for repository data (128 MiB)',
        { cause: error },
      );
    }
    throw error;
  } finally {
    signal.removeEventListener('abort', stop);
    await endThread(worker);
  }
}
