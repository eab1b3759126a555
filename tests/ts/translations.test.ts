import { TranslationManager } from '@jupyterlab/translation';
import { describe, expect, it } from 'vitest';

import { differences, messages, translations } from '../../tools/translations.mjs';

const wanted = messages();

/** Returns the placeholders of a text, in order of their numbers: `%1` and `%2` for `%1 of %2`. */
const placeholders = (text: string): string[] => [...new Set(text.match(/%\d/g))].sort();

describe.each(translations())('the translation into $language', ({ language, content }) => {
  it('has exactly the messages of the page', () => {
    expect(differences(wanted, content)).toEqual({ missing: [], unused: [] });
  });

  it('has the number of plural forms of the language, each with the placeholders of its message', () => {
    const forms = Number(/nplurals=(\d)/.exec(content[''].plural_forms)?.[1]);
    const wrong = [...wanted].filter(([key, [message, plural]]) => {
      const translated = content[key] ?? [];
      const expected = plural === undefined ? [message] : [message, ...Array<string>(forms - 1).fill(plural)];
      // A singular may contain “one” instead of the number.
      const agrees = (text: string, index: number): boolean =>
        String(placeholders(text)) === String(placeholders(expected[index] ?? '')) ||
        (plural !== undefined && index === 0 && String(placeholders(text)) === String(placeholders(plural)));
      return translated.length !== expected.length || !translated.every(agrees);
    });
    expect(wrong.map(([key]) => [key, content[key]])).toEqual([]);
  });

  it('can be read by JupyterLab: plain messages, messages with a context, and both plural forms', async () => {
    const connector = { fetch: () => Promise.resolve({ data: { jupyter_dtf: content }, message: '' }) };
    const manager = new TranslationManager('', '', undefined, connector as never);
    await manager.fetch(language);
    const trans = manager.load('jupyter_dtf');
    for (const [key, [message = '', plural]] of wanted) {
      const context = key.includes('\u0004') ? (key.split('\u0004')[0] ?? '') : '';
      // Placeholders are replaced by themselves, so that translations stay the same. A plural needs its number first.
      const rest = ['%2', '%3', '%4', '%5', '%6', '%7', '%8', '%9'];
      const read = (count: number): string =>
        plural === undefined
          ? trans.dcnpgettext('jupyter_dtf', context, message, '', 0, '%1', ...rest)
          : trans.dcnpgettext('jupyter_dtf', context, message, plural, count, ...rest);
      for (const count of [1, 2, 5]) {
        const number = plural === undefined ? '%1' : String(count);
        expect(content[key]?.map(text => text.replaceAll('%1', number))).toContain(read(count));
      }
    }
  });
});

describe('the missing messages of a translation', () => {
  it('are those without a translation, or with an empty one', () => {
    const known = new Map([
      ['Stop', ['Stop']],
      ['%1 run', ['%1 run', '%1 runs']]
    ]);
    const content = { '': {}, '%1 run': ['%1 Lauf', ''], Gone: ['Fort'] };
    expect(differences(known, content)).toEqual({ missing: ['Stop', '%1 run'], unused: ['Gone'] });
  });
});
