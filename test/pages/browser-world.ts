/** A real browser for tests of pages. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core';
import { requireCommand } from '../world/tools.ts';

const axeSource = readFileSync(
  createRequire(import.meta.url).resolve('axe-core/axe.min.js'),
  'utf8',
);

/** Widths of a phone, a laptop and a large screen, in px. */
export const widths = [360, 1280, 2560] as const;

// The rules of axe that depend on colours: the others find the same when it is dark.
export const colourRules = ['color-contrast', 'link-in-text-block'];

/** Height of the window, in px. */
const height = 900;

/** The page of a browser, whatever drives it. */
export interface Evaluating {
  evaluate(expression: string): Promise<unknown>;
}

export interface View {
  readonly width?: number;
  readonly isDark?: boolean;
  /** Default: true. */
  readonly javaScript?: boolean;
  readonly headers?: Readonly<Record<string, string>>;
  /** Expects answers with a status of a failure, which the browser reports as errors. Default: false. */
  readonly mayFail?: boolean;
}

/** A browser that every test of a file shares. Each view has its own cookies. */
export interface TestBrowser extends AsyncDisposable {
  /** Opens an empty tab. Fails the test at its end if the page had an error, or broke its content security policy. */
  open(view?: View): Promise<OpenTab>;
}

export interface OpenTab extends AsyncDisposable {
  readonly page: Page;
  readonly context: BrowserContext;
  /** Forgives the reported errors that match, such as a refused form; fails if there are none. */
  expectProblem(pattern: RegExp): void;
}

export async function startBrowser(): Promise<TestBrowser> {
  const browser: Browser = await chromium.launch({
    executablePath: requireCommand('chromium-headless-shell'),
    // Without a program that imitates a graphics card: a tenth less processor time.
    args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu'],
  });
  return {
    async open({
      width = 1280,
      isDark = false,
      javaScript = true,
      headers = {},
      mayFail = false,
    } = {}) {
      const context = await browser.newContext({
        viewport: { width, height },
        colorScheme: isDark ? 'dark' : 'light',
        javaScriptEnabled: javaScript,
        extraHTTPHeaders: { ...headers },
        reducedMotion: 'reduce',
      });
      // Long, so that a busy machine causes no failure.
      context.setDefaultTimeout(120_000);
      const page = await context.newPage();
      const problems: string[] = [];
      page.on('pageerror', error => problems.push(String(error)));
      page.on('console', message => {
        const isStatus = message.text().startsWith('Failed to load resource: the server responded');
        if (message.type() === 'error' && !(mayFail && isStatus)) problems.push(message.text());
      });
      return {
        page,
        context,
        expectProblem(pattern) {
          const others = problems.filter(problem => !pattern.test(problem));
          assert.notEqual(others.length, problems.length, `no problem matches ${pattern}`);
          problems.splice(0, problems.length, ...others);
        },
        async [Symbol.asyncDispose]() {
          await context.close();
          assert.deepEqual(problems, [], 'the page reported errors');
        },
      };
    },
    [Symbol.asyncDispose]: () => browser.close(),
  };
}

/**
 * Fails for every rule of accessibility that the page breaks, and for content wider than the window.
 *
 * @param rules those to check. Default: all
 */
export async function requireAccessible(
  page: Evaluating,
  rules?: readonly string[],
): Promise<void> {
  const isLoaded = await page.evaluate("typeof axe === 'object'");
  if (!isLoaded) await page.evaluate(axeSource);
  const violations = await page.evaluate(
    `axe.run(${JSON.stringify({ resultTypes: ['violations'], runOnly: rules })}).then(({ violations }) => violations.map(({ id, nodes }) =>
      [id, ...nodes.map(({ html }) => html.slice(0, 200))]))`,
  );
  assert.deepEqual(violations, []);
  const excess = await page.evaluate(
    'document.documentElement.scrollWidth - document.documentElement.clientWidth',
  );
  assert.equal(excess, 0, 'the page is wider than the window');
}

/**
 * Checks a page at three widths, light and dark. With SLUICE_SCREENSHOTS, a folder, it also keeps pictures.
 *
 * @param name of the pictures
 */
export async function checkLooks(
  browser: TestBrowser,
  url: string,
  name: string,
  prepare: (page: Page) => Promise<unknown> = async () => {},
  { headers = {} }: Pick<View, 'headers'> = {},
): Promise<void> {
  await using tab = await browser.open({ headers });
  const { page } = tab;
  await page.goto(url);
  await prepare(page);
  for (const width of widths) {
    await page.setViewportSize({ width, height });
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme });
      await nextFrame(page);
      await requireAccessible(page, colorScheme === 'dark' ? colourRules : undefined);
      await requireHints(page);
      await keepPicture(page, `${name}-${width}-${colorScheme}`);
    }
  }
}

/** Checks that a table says when it has more columns than fit, and only then. */
export async function requireHints(page: Evaluating): Promise<void> {
  const wrong = await page.evaluate(`[...document.querySelectorAll('.wide')]
    .filter(one => one.checkVisibility())
    .map(one => ({
      hasMore: one.scrollWidth > one.clientWidth,
      isSaid:
        getComputedStyle(one, '::before').content !== 'none' &&
        parseFloat(getComputedStyle(one, '::before').fontSize) > 0,
      text: one.innerText.slice(0, 60),
    }))
    .filter(({ hasMore, isSaid }) => hasMore !== isSaid)`);
  assert.deepEqual(wrong, []);
}

/** Waits until the page is drawn as it is now, and ends changes of its colours. */
export async function nextFrame(page: Evaluating): Promise<void> {
  await page.evaluate(
    `new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done))).then(() => {
      for (const one of document.getAnimations()) if (one instanceof CSSTransition) one.finish();
    })`,
  );
}

/** Keeps a picture of a page in the folder that SLUICE_SCREENSHOTS names, if it names one. */
export async function keepPicture(page: Page, name: string): Promise<void> {
  const folder = process.env.SLUICE_SCREENSHOTS;
  if (folder === undefined) return;
  await mkdir(folder, { recursive: true });
  await page.screenshot({ path: join(folder, `${name}.png`), fullPage: true });
}
