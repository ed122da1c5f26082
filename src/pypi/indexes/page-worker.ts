import { parentPort } from 'node:worker_threads';
import { lowerPriority } from '../../foundation/threads.ts';
import { PageProblem, rewrittenPage } from './index-page.ts';
import { ownMemory, type PageOrder, type PageThreadResponse } from './page-memory.ts';
import { versionsInPage } from './versions-in-page.ts';

lowerPriority();
parentPort?.on('message', (order: PageOrder) => {
  const answer = answerOf(order);
  parentPort?.postMessage(answer, 'page' in answer ? ownMemory(answer.page) : []);
});

function answerOf(order: PageOrder): PageThreadResponse {
  try {
    if ('kept' in order) return { versions: versionsInPage(order.kept) };
    return { page: rewrittenPage(order.sent) };
  } catch (error) {
    return {
      problem: error instanceof PageProblem ? error.message : 'answered a page that cannot be read',
    };
  }
}
