import '../../foundation/gated-zlib.ts';
import { serveTask } from '../../conda/threads/one-task.ts';
import type { WheelToRead } from './addressed-wheels.ts';
import { readWheelMetadata } from './open-wheel.ts';

serveTask(({ path, wheel }: WheelToRead) => readWheelMetadata(path, wheel));
