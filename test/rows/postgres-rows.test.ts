import { after } from 'node:test';
import { openPostgresRows } from '../../src/storage/rows/rows.ts';
import { startPostgres } from '../world/postgres.ts';
import { testRows } from './conformance.ts';

const postgres = await startPostgres();
after(() => postgres[Symbol.asyncDispose]());

testRows('PostgreSQL', async () => openPostgresRows(await postgres.createDatabase()));
