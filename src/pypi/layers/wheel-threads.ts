import { createLayerThreads } from '../../conda/index.ts';
import type { WheelOrders } from './wheel-layer.ts';

/**
 * Starts threads that make layers of wheels when there is work. They share the memory for threads with those of Conda packages.
 *
 * @param size number of threads. Default: the number of processors, at most 2
 */
export function createWheelThreads(size?: number) {
  return createLayerThreads<WheelOrders>(size, new URL('./wheel-worker.ts', import.meta.url));
}
