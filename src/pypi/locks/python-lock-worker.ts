import { serveTask } from '../../conda/threads/one-task.ts';
import { answerLock } from './read-toml-lock.ts';

serveTask(answerLock);
