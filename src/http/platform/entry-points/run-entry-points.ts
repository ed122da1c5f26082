import { randomBytes } from 'node:crypto';
import { entryPoint } from '../entry-point.ts';
import { newRunAnswer, runAnswer, startedRunAnswer } from '../platform-schemas.ts';

const notKept = 'This server keeps no records of runs';

const runIdBytes = 10;

/**
 * Reports of workflow runs, which workflow engines send to the platform of their access token. A run ends at
 * once where the first two are refused, so they are accepted, and the answer says that nothing is kept.
 * Their bodies are not read.
 */
export const runEntryPoints = [
  entryPoint({
    method: 'post',
    path: '/trace/create',
    summary: 'Announce a run; nothing is kept',
    access: 'user',
    answer: newRunAnswer,
    isIdle: true,
    run: () => ({
      workflowId: randomBytes(runIdBytes).toString('hex'),
      message: `${notKept}: its platform provides users, workspaces and registry credentials`,
    }),
  }),
  entryPoint({
    method: 'put',
    path: '/trace/{workflowId}/begin',
    summary: 'Report that a run begins; nothing is kept',
    access: 'user',
    answer: startedRunAnswer,
    isIdle: true,
    run: ({ params }) => ({ workflowId: params.workflowId, watchUrl: `none. ${notKept}` }),
  }),
  ...['progress', 'heartbeat', 'complete'].map(event =>
    entryPoint({
      method: 'put',
      path: `/trace/{workflowId}/${event}`,
      summary: `Report of a run (${event}); nothing is kept`,
      access: 'user',
      answer: runAnswer,
      isIdle: true,
      run: ({ params }) => ({ workflowId: params.workflowId, message: notKept }),
    }),
  ),
];
