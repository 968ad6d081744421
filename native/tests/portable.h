/* Included before everything else when the reader is built a second time, with NDD_PORTABLE: gives
 * its functions names of their own, so that a test can hold both. The linker reports a name that
 * is missing here. */
#ifndef PORTABLE_H
#define PORTABLE_H

#define bit_counter_add8 portable_bit_counter_add8
#define bit_counter_finish portable_bit_counter_finish
#define bit_counter_majority portable_bit_counter_majority
#define blocks_weigh portable_blocks_weigh
#define character_at portable_character_at
#define character_of portable_character_of
#define character_reference portable_character_reference
#define features_sum portable_features_sum
#define hidden_settle portable_hidden_settle
#define identity_canonical portable_identity_canonical
#define identity_title portable_identity_title
#define links_add portable_links_add
#define links_is_number portable_links_is_number
#define links_settle portable_links_settle
#define ndd_distance portable_distance
#define ndd_hash_fnv1 portable_hash_fnv1
#define ndd_hash_fnv1a portable_hash_fnv1a
#define ndd_hash_jenkins portable_hash_jenkins
#define ndd_hash_murmur2 portable_hash_murmur2
#define ndd_hash_set_add portable_hash_set_add
#define ndd_hash_set_close portable_hash_set_close
#define ndd_hash_set_list portable_hash_set_list
#define ndd_hash_set_missing portable_hash_set_missing
#define ndd_hash_set_open portable_hash_set_open
#define ndd_hash_set_stats portable_hash_set_stats
#define ndd_hash_token portable_hash_token
#define ndd_read_html portable_read_html
#define ndd_read_text portable_read_text
#define ndd_reader_close portable_reader_close
#define ndd_reader_keep_links portable_reader_keep_links
#define ndd_reader_keep_words portable_reader_keep_words
#define ndd_reader_links portable_reader_links
#define ndd_reader_open portable_reader_open
#define ndd_reader_words portable_reader_words
#define ndd_recipe portable_recipe
#define ndd_seems_utf8 portable_seems_utf8
#define ndd_simhash portable_simhash
#define ndd_simhash_weighted portable_simhash_weighted
#define ndd_similarities portable_similarities
#define ndd_similarity portable_similarity
#define ndd_unicode_version portable_unicode_version
#define reader_scan portable_reader_scan
#define repeats_leave portable_repeats_leave
#define scratch_drop portable_scratch_drop
#define scratch_grow portable_scratch_grow
#define scratch_trim portable_scratch_trim
#define simhash_ways portable_simhash_ways
#define sketch_end portable_sketch_end
#define tag_attributes portable_tag_attributes
#define tag_long_name portable_tag_long_name
#define target_hash portable_target_hash
#define target_is_volatile portable_target_is_volatile
#define target_split portable_target_split
#define words_break portable_words_break
#define words_end_block portable_words_end_block
#define words_html portable_words_html
#define words_plain portable_words_plain
#define wrappers_open portable_wrappers_open

#endif
