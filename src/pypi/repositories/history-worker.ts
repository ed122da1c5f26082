import { serveTask } from '../../conda/threads/one-task.ts';
import { readHistory } from './read-history.ts';

serveTask(readHistory);
