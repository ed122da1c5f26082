import { parentPort } from 'node:worker_threads';
import { giveWay } from '../../foundation/work.ts';
import { versionsInPage } from '../search/versions-in-page.ts';
import { PageProblem, rewrittenPage } from './index-page.ts';
import { ownMemory, type PageAnswer, type PageOrder } from './page-memory.ts';

giveWay();
parentPort?.on('message', ({ id, order }: { id: number; order: PageOrder }) => {
  const answer = answerOf(id, order);
  parentPort?.postMessage(answer, 'page' in answer ? ownMemory(answer.page) : []);
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
