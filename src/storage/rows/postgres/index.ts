/** PostgreSQL, as a move of rows and a site of several servers use it. */

export { claimLock, type Leader, tryServerLock } from './lock-session.ts';
export { connectionOf, startFaultOf } from './postgres-connection.ts';
export { migratePostgres } from './postgres-migrations.ts';
export { storable } from './postgres-statements.ts';
export { type ListedReplica, openReplicaList } from './replica-list.ts';
export { awaitLead, type ServerLock, watchLead } from './server-lock.ts';
