/** Runs a builder as a server does, until its input ends; its argument is JSON of the options. Prints its address. */
import { startOwnBuilder } from '../../src/builds/builder/own/own-builder.ts';

const log = { info() {}, warn: console.error, error: console.error };
const options = JSON.parse(process.argv[2] ?? '');
const builder = await startOwnBuilder({ ...options, log });
console.log(`contained ${builder?.isContained} ${builder?.address}`);
process.stdin.on('end', () => void builder?.stop()).resume();
