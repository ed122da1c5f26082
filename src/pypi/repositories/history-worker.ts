import { serveTask } from '../../conda/threads/one-task.ts';
import { answerHistory } from './read-history.ts';

serveTask(answerHistory);
