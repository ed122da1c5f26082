/** Digests computed on other threads while bytes flow. */

export { createFlowHash, type FlowAlgorithm, type FlowHash } from './flow-hash.ts';
