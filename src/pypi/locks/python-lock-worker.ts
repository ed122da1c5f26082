import { serveTask } from '../../conda/threads/one-task.ts';
import { readTomlLock } from './read-toml-lock.ts';

serveTask(readTomlLock);
