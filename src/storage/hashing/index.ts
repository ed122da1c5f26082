/** Digests computed on other threads while bytes flow. */

export { createFlowHash } from './create-flow-hash.ts';
export type { FlowAlgorithm, FlowHash } from './flow-hash.ts';
