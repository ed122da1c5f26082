import { parentPort } from 'node:worker_threads';
import { giveWay } from '../../foundation/threads.ts';
import { PageProblem, rewrittenPage } from './index-page.ts';
import { ownMemory, type PageAnswer, type PageOrder } from './page-memory.ts';
import { versionsInPage } from './versions-in-page.ts';

giveWay();
parentPort?.on('message', (order: PageOrder) => {
  const answer = answerOf(order);
  parentPort?.postMessage(answer, 'page' in answer ? ownMemory(answer.page) : []);
});

function answerOf(order: PageOrder): PageAnswer {
  try {
    if ('kept' in order) return { versions: versionsInPage(order.kept) };
    return { page: rewrittenPage(order.sent) };
  } catch (error) {
    return {
      problem: error instanceof PageProblem ? error.message : 'answered a page that cannot be read',
    };
  }
}
