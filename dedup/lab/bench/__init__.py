"""What this machine does: one file a benchmark, and what they share.

The rules kept here: what is compared runs in turns within one run, so that a slow minute of the
machine hits both; a figure is a median with the range it came from; and every benchmark can be
repeated with the one command that its report names.

    batch       a million queries against a stream, beside the paper's mappers
    report      medians, ranges, and what the machine is
    crowds      probes where fingerprints or documents stand close together, table and segment
    crawl       what the add-on costs a crawl (crawl_site: its pages; crawl_spider: its process;
                crawl_steps: where the time goes)
    tables      the search within k, beside other tables (tables_data: the fingerprints;
                tables_contenders: who takes part; tables_process: each in a process of its own;
                tables_plot, tables_page: the outcome as a plot, and in a page)
    pages       from a page to its fingerprint, beside other extractors (page_sets: the pages)
"""
