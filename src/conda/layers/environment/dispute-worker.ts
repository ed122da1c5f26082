import { serveTask } from '../../threads/one-task.ts';
import { type LostPaths, lostPathsOf, type Rival, rivalsAmong } from './disputes.ts';

/** What is asked about the packages of an environment. */
export interface DisputeOrder {
  readonly ask: 'rivals' | 'lost';
  readonly packages: readonly Rival[];
}

serveTask(({ ask, packages }: DisputeOrder): readonly number[] | LostPaths =>
  ask === 'rivals' ? rivalsAmong(packages) : lostPathsOf(packages),
);
