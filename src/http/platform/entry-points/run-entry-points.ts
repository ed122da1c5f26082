import { randomBytes } from 'node:crypto';
import { ok } from '../../route/declaration.ts';
import { entryPoint } from '../entry-point.ts';
import { newRunResponse, runResponse, startedRunResponse } from '../platform-schemas.ts';

const notKept = 'This server keeps no records of runs';

const runIdBytes = 10;

/**
 * Entry points for reports of workflow runs. Workflow engines send them to the platform of their access token, and stop
 * the run if either of the first two is refused. The server therefore accepts them without reading their bodies, and
 * its response says that it does not store them.
 */
export const runEntryPoints = [
  entryPoint({
    id: 'announceRun',
    method: 'post',
    path: '/trace/create',
    tag: 'Runs',
    summary: 'Announce a run. The server keeps nothing of it',
    access: 'user',
    responses: ok(newRunResponse),
    run: () => ({
      workflowId: randomBytes(runIdBytes).toString('hex'),
      message: `${notKept}: its platform provides users, workspaces and registry credentials`,
    }),
  }),
  entryPoint({
    id: 'beginRun',
    method: 'put',
    path: '/trace/{workflowId}/begin',
    tag: 'Runs',
    summary: 'Report the start of a run. The server keeps nothing of it',
    access: 'user',
    responses: ok(startedRunResponse),
    run: ({ params }) => ({ workflowId: params.workflowId, watchUrl: `none. ${notKept}` }),
  }),
  ...['progress', 'heartbeat', 'complete'].map(event =>
    entryPoint({
      id: `${event}Run`,
      method: 'put',
      tag: 'Runs',
      path: `/trace/{workflowId}/${event}`,
      summary: `Report on a run (${event}). The server keeps nothing of it`,
      access: 'user',
      responses: ok(runResponse),
      run: ({ params }) => ({ workflowId: params.workflowId, message: notKept }),
    }),
  ),
];
