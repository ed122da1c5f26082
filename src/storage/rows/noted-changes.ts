import type { Change, RowDatabase } from './driver/row-database.ts';

/** Changes that readers do not wait for. One that cannot be written is dropped. */
export interface NotedChanges {
  note(change: Change<void>): void;
  /** Resolves when all that were noted before have ended: a purge does not overlook a use. */
  ended(): Promise<void>;
}

export function createNotedChanges(database: Pick<RowDatabase, 'commit'>): NotedChanges {
  const running = new Set<Promise<void>>();
  return {
    note(change) {
      const end = database
        .commit(change)
        .catch(() => {})
        .finally(() => running.delete(end));
      running.add(end);
    },
    async ended() {
      await Promise.all(running);
    },
  };
}
