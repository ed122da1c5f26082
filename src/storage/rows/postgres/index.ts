/** PostgreSQL, as a move of rows and a site of several servers use it. */

export { awaitLead, watchLead } from './lead-wait.ts';
export { claimLock, type Leader, tryServerLock } from './lock-session.ts';
export { connectionOf, startFaultOf } from './postgres-connection.ts';
export { migratePostgres } from './postgres-migrations.ts';
export { storable } from './postgres-statements.ts';
export { type ListedReplica, openReplicaList } from './replica-list.ts';
export type { ServerLock } from './server-lock.ts';
