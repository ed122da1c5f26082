import { parentPort } from 'node:worker_threads';
import { type ProjectVersion, versionsInPage } from '../search/versions-in-page.ts';
import { PageProblem, rewrittenPage, type SentPage } from './index-page.ts';

/** What the thread answers: the page for the solver or the versions on it, or what is wrong with the page of the index. */
export type PageAnswer =
  | { readonly id: number; readonly page: Uint8Array }
  | { readonly id: number; readonly versions: readonly ProjectVersion[] }
  | { readonly id: number; readonly problem: string };

/** What the thread is asked for. */
export type PageOrder = { readonly sent: SentPage } | { readonly kept: Uint8Array };

parentPort?.on('message', ({ id, order }: { id: number; order: PageOrder }) => {
  parentPort?.postMessage(answerOf(id, order));
});

function answerOf(id: number, order: PageOrder): PageAnswer {
  try {
    if ('kept' in order) return { id, versions: versionsInPage(order.kept) };
    return { id, page: rewrittenPage(order.sent) };
  } catch (error) {
    return {
      id,
      problem: error instanceof PageProblem ? error.message : 'answered a page that cannot be read',
    };
  }
}
