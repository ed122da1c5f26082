import { parentPort } from 'node:worker_threads';
import { PageProblem, rewrittenPage, type SentPage } from './index-page.ts';

/** What the thread answers: the page for the solver, or what is wrong with the page of the index. */
export type PageAnswer =
  | { readonly id: number; readonly page: Uint8Array }
  | { readonly id: number; readonly problem: string };

parentPort?.on('message', ({ id, sent }: { id: number; sent: SentPage }) => {
  parentPort?.postMessage(answerOf(id, sent));
});

function answerOf(id: number, sent: SentPage): PageAnswer {
  try {
    return { id, page: rewrittenPage(sent) };
  } catch (error) {
    return {
      id,
      problem: error instanceof PageProblem ? error.message : 'answered a page that cannot be read',
    };
  }
}
