import { takeRoom, threadNeeds } from '../../conda/layers/gzip/index.ts';
import { makeRoom, noteIdle } from '../../conda/threads/one-task.ts';
import { Fault } from '../../foundation/fault.ts';
import { Semaphore } from '../../foundation/semaphore.ts';
import { Thread } from '../../foundation/threads.ts';
import { PageProblem, type SentPage } from './index-page.ts';
import { ownMemory, type PageOrder, type PageThreadResponse } from './page-memory.ts';
import type { ProjectVersion } from './versions-in-page.ts';

/** Rewrites pages of indexes on a thread: a large page takes longer than the event loop may be held. */
export interface PageThread {
  /** Returns the page for the solver; the body is gone then. Throws {@link PageProblem}, and a `Fault` for a page that takes too long. */
  rewrite(sent: SentPage): Promise<Uint8Array>;
  /** Returns the newest versions on a rewritten page. Throws as `rewrite` does. */
  versions(kept: Uint8Array): Promise<readonly ProjectVersion[]>;
  close(): Promise<void>;
}

const idleMs = 10_000;
const longestMs = 20_000;
const worker = new URL('./page-worker.ts', import.meta.url);

export function createPageThread(): PageThread {
  // One page at a time: the thread has memory for the largest one.
  const turns = new Semaphore({ limit: 1 });
  let thread: Thread<PageThreadResponse> | undefined;
  let idle: NodeJS.Timeout | undefined;
  let forget = () => {};
  let giveRoom: (() => void) | undefined;

  const end = async () => {
    clearTimeout(idle);
    forget();
    const ended = thread;
    thread = undefined;
    await ended?.end();
  };

  const responseTo = async (order: PageOrder): Promise<PageThreadResponse> => {
    clearTimeout(idle);
    forget();
    if (!thread || thread.isLost) {
      await makeRoom();
      thread = new Thread(worker, { heapMb: 256, youngHeapMb: 8 });
    }
    giveRoom ??= takeRoom(threadNeeds.pages);
    const running = thread;
    // The bytes of an index go there and come back without a copy.
    running.ask(order, 'sent' in order ? ownMemory(order.sent.body) : []);
    try {
      return await running.next(AbortSignal.timeout(longestMs));
    } catch {
      // What it does may never end.
      thread = undefined;
      await running.end();
      throw tooLarge(order);
    } finally {
      idle = setTimeout(() => end().catch(() => {}), idleMs);
      idle.unref();
      // The pages of a solve come together.
      if (turns.waiting === 0) {
        giveRoom?.();
        giveRoom = undefined;
      }
      // After a large page it has as much memory as the largest one took.
      if (thread) forget = noteIdle(end);
    }
  };

  return {
    async rewrite(sent) {
      const response = await turns.run(() => responseTo({ sent }));
      if ('page' in response) return response.page;
      throw new PageProblem('problem' in response ? response.problem : '');
    },
    async versions(kept) {
      const response = await turns.run(() => responseTo({ kept }));
      if ('versions' in response) return response.versions;
      throw new PageProblem('problem' in response ? response.problem : '');
    },
    close: end,
  };
}

function tooLarge(order: PageOrder): Fault {
  const project = 'sent' in order ? ` of the project ${order.sent.project}` : '';
  return new Fault(
    'upstream-unusable',
    `The page${project} of an index is too large to read: try later`,
    { phase: 'upstream' },
  );
}
